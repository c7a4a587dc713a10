package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// RequestKey is a client's idempotency key: a key of the client's choice, bound to the operator and
// to the request, so that a repeated request begins its work only once.
type RequestKey struct {
	Actor  string // name of the token
	Key    string // empty: no key
	Digest string // of the request
}

// keepRequestKeys is how long a key is remembered.
const keepRequestKeys = 24 * time.Hour

// BegunBefore refuses a request whose key has begun a run, a batch or an allocation already.
type BegunBefore struct{ ID string }

func (*BegunBefore) Error() string {
	return "a request with the same idempotency key was already accepted"
}

type requestKey struct{}

// WithRequestKey makes the transaction that inserts runs or an allocation with the context store the
// key too: both are stored, or neither.
func WithRequestKey(ctx context.Context, k RequestKey) context.Context {
	if k.Key == "" {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, k)
}

// Begun returns the id of the run, batch or allocation begun under a key, or "". Code: idempotency_conflict.
func (db *DB) Begun(ctx context.Context, k RequestKey) (string, error) {
	if k.Key == "" {
		return "", nil
	}
	return begun(ctx, db.reader(), k, db.Now())
}

func begun(ctx context.Context, r sqlkit.Runner, k RequestKey, now time.Time) (id string, err error) {
	var digest string
	err = r.QueryRowContext(ctx, `SELECT digest, begins FROM request_keys WHERE actor = $1 AND name = $2 AND at > $3`, k.Actor, k.Key,
		sqlkit.Micros(now.Add(-keepRequestKeys))).Scan(&digest, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err == nil && digest != k.Digest:
		return "", broker.Errorf(broker.Invalid, "idempotency_conflict",
			"cannot repeat the request: idempotency key %q of %s belongs to %s, whose request was different (use another key)", k.Key, k.Actor, id)
	}
	return id, err
}

// takeRequestKey stores the context's key, if any, and deletes old keys. begins is the id of the
// run, of the batch or of the allocation.
func (t *tx) takeRequestKey(ctx context.Context, begins string) error {
	k, said := ctx.Value(requestKey{}).(RequestKey)
	if !said {
		return nil
	}
	if _, err := t.ExecContext(ctx, `DELETE FROM request_keys WHERE at <= $1`, sqlkit.Micros(t.now.Add(-keepRequestKeys))); err != nil {
		return err
	}
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`INSERT INTO request_keys (actor, name, digest, begins, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (actor, name) DO NOTHING`,
		k.Actor, k.Key, k.Digest, begins, sqlkit.Micros(t.now)))
	if err != nil || n == 1 {
		return err
	}
	id, err := begun(ctx, t, k, t.now)
	if err != nil {
		return err
	}
	return &BegunBefore{id}
}
