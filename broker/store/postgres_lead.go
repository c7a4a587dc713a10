package store

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	leadLock  = 0x686f73746c6572 // "hostler"
	leadEvery = 2 * time.Second
)

// leader is the connection that holds the advisory lock.
type leader struct {
	mu   sync.Mutex // one transaction at a time
	conn *sql.Conn
}

// missedSoon makes the server notice within twenty seconds that the other end of a connection has
// vanished silently, such as a machine that lost its power. Until then the connection keeps its
// lock and no other broker leads; the usual default is two hours.
const missedSoon = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3`

type leaderKey struct{}

func leaderOf(ctx context.Context) *leader {
	l, _ := ctx.Value(leaderKey{}).(*leader)
	return l
}

func (e *postgresEngine) lead(ctx context.Context, f func(context.Context)) error {
	tick := time.NewTicker(leadEvery)
	defer tick.Stop()
	for {
		if err := e.leadOnce(ctx, f); err != nil && ctx.Err() == nil {
			e.db.log.Warn("cannot take the leader's lock, or lost it (retrying)", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leadOnce runs f if no other broker leads, until the connection is lost.
func (e *postgresEngine) leadOnce(ctx context.Context, f func(context.Context)) error {
	conn, err := e.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // back to the pool, or gone
	if _, err := conn.ExecContext(ctx, missedSoon); err != nil {
		return err
	}
	var got bool
	if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(leadLock)).Scan(&got); err != nil {
		return err
	}
	if !got {
		return e.lookAtLead(ctx)
	}
	l := &leader{conn: conn}
	defer l.release(ctx)
	led, stop := context.WithCancel(context.WithValue(ctx, leaderKey{}, l))
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(led)
		<-led.Done()
	}()
	err = l.watch(led)
	stop()
	<-done
	return err
}

// lookAtLead logs a lock that no live process holds, once a minute.
func (e *postgresEngine) lookAtLead(ctx context.Context) error {
	h, err := e.leadHolder(ctx)
	if err != nil || !h.Orphaned() || e.machine().Sub(e.orphanTold) < leadSilence {
		return err
	}
	e.orphanTold = e.machine()
	e.db.log.Error("no broker leads: the connection that holds the leader's lock belongs to a dead process (end the connection: SELECT pg_terminate_backend(pid))", zap.Int64("pid", h.PID), zap.String("from", h.From), zap.Duration("silent", h.Silent))
	return nil
}

// watch returns when the connection no longer answers.
func (l *leader) watch(ctx context.Context) error {
	tick := time.NewTicker(leadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if !l.mu.TryLock() {
			continue // the transaction in progress will notice
		}
		ping, cancel := context.WithTimeout(ctx, leadEvery)
		err := l.conn.PingContext(ping)
		cancel()
		l.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (l *leader) release(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(leadLock))
}
