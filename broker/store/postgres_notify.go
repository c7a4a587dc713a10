package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// Hints reach other replicas by NOTIFY. They are sent after the commit, many in one statement and
// in their own transaction: a NOTIFY inside a transaction takes a lock that makes all commits of
// the database wait for each other. A crash in between loses hints; the receivers' slow polls find
// the work anyway. Therefore NOTIFY does not wait for the disk either.
const (
	notifyChannel = "hostler_hints"
	notifyMax     = 7000 // bytes of a payload; PostgreSQL takes fewer than 8000
	listenAgain   = time.Second
)

func (e *postgresEngine) tell(hints []Hint) {
	select {
	case e.outbox <- hints:
	default: // the database is slow or away
	}
}

// send batches the hints that gathered while the previous statement was running.
func (e *postgresEngine) send(ctx context.Context) {
	for {
		var payloads []string
		select {
		case first := <-e.outbox:
			payloads = e.payloads(first)
		case <-ctx.Done():
			return
		}
		for _, p := range payloads {
			if _, err := e.pool.ExecContext(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, notifyChannel,
				p); err != nil && ctx.Err() == nil {
				e.db.log.Warn("cannot notify the other brokers", zap.Error(err))
			}
		}
	}
}

// payloads packs first and the hints queued behind first, each hint once.
func (e *postgresEngine) payloads(first []Hint) []string {
	seen := map[Hint]bool{}
	var out []string
	var b strings.Builder
	add := func(hints []Hint) {
		for _, h := range hints {
			if seen[h] {
				continue
			}
			seen[h] = true
			if b.Len() > notifyMax {
				out = append(out, b.String())
				b.Reset()
			}
			if b.Len() == 0 {
				b.WriteString(e.origin)
			}
			b.WriteString("\n" + string(h.Kind) + " " + h.ID)
		}
	}
	add(first)
	for {
		select {
		case more := <-e.outbox:
			add(more)
		default:
			return append(out, b.String())
		}
	}
}

// listen receives notifications, and reconnects when the connection is lost.
func (e *postgresEngine) listen(ctx context.Context, conn *pgx.Conn) {
	for {
		err := e.hear(ctx, conn)
		for conn = nil; conn == nil; conn, err = e.listening(ctx) {
			if ctx.Err() == nil {
				e.db.log.Warn("cannot receive notifications from the other brokers (retrying)", zap.Error(err))
			}
			select {
			case <-time.After(listenAgain):
			case <-ctx.Done():
				return
			}
		}
		e.db.hints.give([]Hint{{Kind: HintMissed}}) // the new connection listens already
	}
}

// listening opens the connection that listens. On a broker that serves, the connection also holds a
// lock that shows that the broker serves.
func (e *postgresEngine) listening(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, e.config)
	if err != nil {
		return nil, err
	}
	if _, err = conn.Exec(ctx, missedSoon); err == nil && e.db.serves { // waits for a hold that is being placed
		_, err = conn.Exec(ctx, `SELECT pg_advisory_lock_shared($1)`, int64(serveLock))
	}
	if err == nil {
		_, err = conn.Exec(ctx, "LISTEN "+notifyChannel)
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

func (e *postgresEngine) hear(ctx context.Context, conn *pgx.Conn) error {
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only ends
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		e.db.hints.give(parseHints(n.Payload, e.origin))
	}
}

// parseHints reads a payload; it returns nil for a payload of this process.
func parseHints(payload, origin string) []Hint {
	lines := strings.Split(payload, "\n")
	if lines[0] == origin {
		return nil
	}
	var hints []Hint
	for _, line := range lines[1:] {
		if kind, id, ok := strings.Cut(line, " "); ok {
			hints = append(hints, Hint{HintKind(kind), id})
		}
	}
	return hints
}
