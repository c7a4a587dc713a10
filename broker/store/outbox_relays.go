package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// OutboxRelay is how far events were passed on to another system.
type OutboxRelay struct {
	Name     string
	Position int64     // of the last event that the other system has
	Code     string    // of what is wrong; empty: nothing
	Trouble  string    // for people
	Since    time.Time // since when something is wrong
	Lost     int64     // positions that were deleted before they were passed on
	LostAt   time.Time
}

// RelayLag is what a relay has not passed on.
type RelayLag struct {
	OutboxRelay
	Waiting int64     // events; at most MaxWaiting
	Oldest  time.Time // when the oldest of them was written; zero: none waits
}

// MaxWaiting bounds the count of waiting events.
const MaxWaiting = 100_000

// Age is the age of the oldest event that was not passed on; 0: none waits.
func (l RelayLag) Age(now time.Time) time.Duration {
	if l.Oldest.IsZero() {
		return 0
	}
	return max(now.Sub(l.Oldest), 0)
}

// OutboxRelay finds a relay; known: it has passed on something, or has begun.
func (db *DB) OutboxRelay(ctx context.Context, name string) (r OutboxRelay, known bool, err error) {
	r.Name = name
	err = db.reader().QueryRowContext(ctx,
		`SELECT position, code, trouble, trouble_since, lost, lost_at FROM outbox_relays WHERE name = $1`, name).Scan(&r.Position, &r.Code,
		&r.Trouble, sqlkit.ScanMicros(&r.Since), &r.Lost, sqlkit.ScanMicros(&r.LostAt))
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	return r, err == nil, err
}

// RelayLag returns what a relay has not passed on.
func (db *DB) RelayLag(ctx context.Context, name string) (l RelayLag, err error) {
	if l.OutboxRelay, _, err = db.OutboxRelay(ctx, name); err != nil {
		return l, err
	}
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM
		(SELECT position FROM outbox WHERE position > 0 AND position > $1 ORDER BY position LIMIT $2) AS w`, l.Position, MaxWaiting).Scan(&l.Waiting)
	if err != nil || l.Waiting == 0 {
		return l, err
	}
	err = db.reader().QueryRowContext(ctx, `SELECT at FROM outbox WHERE position > 0 AND position > $1 ORDER BY position LIMIT 1`,
		l.Position).Scan(sqlkit.ScanMicros(&l.Oldest))
	if errors.Is(err, sql.ErrNoRows) { // deleted meanwhile
		return l, nil
	}
	return l, err
}

// AdvanceRelay records that the other system has all events up to a position, and that nothing is
// wrong. A smaller position than the recorded one changes nothing: another broker has led meanwhile.
func (db *DB) AdvanceRelay(ctx context.Context, name string, position int64) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `INSERT INTO outbox_relays (name, position, code, trouble, trouble_since, lost, lost_at)
			VALUES ($1, $2, '', '', 0, 0, 0)
			ON CONFLICT (name) DO UPDATE SET position = excluded.position, code = '', trouble = '', trouble_since = 0
			WHERE outbox_relays.position <= excluded.position`, name, position)
		return err
	})
}

// TroubleRelay records what is wrong with the other system. The time is that of the first trouble
// since something was passed on.
func (db *DB) TroubleRelay(ctx context.Context, name, code, trouble string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE outbox_relays SET code = $1, trouble = $2,
			trouble_since = CASE WHEN code = '' THEN $3 ELSE trouble_since END WHERE name = $4 AND (code <> $1 OR trouble <> $2)`,
			code, trouble, sqlkit.Micros(t.clock()), name)
		return err
	})
}

// SkipRelay records that the events up to a position were deleted before they were passed on.
func (db *DB) SkipRelay(ctx context.Context, name string, to int64) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE outbox_relays SET lost = lost + $1 - position, position = $1, lost_at = $2
			WHERE name = $3 AND position < $1`, to, sqlkit.Micros(t.clock()), name)
		return err
	})
}

// relayed is the position up to which a relay has passed events on; without a relay, all.
func (t *tx) relayed(ctx context.Context, name string) (position int64, err error) {
	if name == "" {
		return math.MaxInt64, nil
	}
	err = t.QueryRowContext(ctx, `SELECT position FROM outbox_relays WHERE name = $1`, name).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return position, err
}
