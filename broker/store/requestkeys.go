package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
)

// RequestKey is what a client says so that a request that is made twice begins
// one thing: a key of its own choice, which is bound to the operator and to what
// was asked for.
type RequestKey struct {
	Actor  string // name of the token
	Key    string // empty: none was said
	Digest string // of the request
}

// keepRequestKeys is how long a key is known.
const keepRequestKeys = 24 * time.Hour

// BegunBefore refuses to begin under a key again what was begun under it.
type BegunBefore struct{ ID string }

func (*BegunBefore) Error() string { return "this was begun before, under the same idempotency key" }

type requestKey struct{}

// WithRequestKey keeps a key in the transaction that inserts runs with the
// context: either both are there, or neither.
func WithRequestKey(ctx context.Context, k RequestKey) context.Context {
	if k.Key == "" {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, k)
}

// Begun is the id of what was begun under a key, "" where nothing was. Code:
// idempotency_conflict.
func (db *DB) Begun(ctx context.Context, k RequestKey) (string, error) {
	if k.Key == "" {
		return "", nil
	}
	return begun(ctx, db.reader(), k, db.Now())
}

func begun(ctx context.Context, r runner, k RequestKey, now time.Time) (id string, err error) {
	var digest string
	err = r.QueryRowContext(ctx, `SELECT digest, begins FROM request_keys WHERE actor = $1 AND name = $2 AND at > $3`, k.Actor, k.Key, micros(now.Add(-keepRequestKeys))).Scan(&digest, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err == nil && digest != k.Digest:
		return "", broker.Errorf(broker.Invalid, "idempotency_conflict", "cannot begin: idempotency key %q of %s belongs to %s, which was asked for in other words (use another key)", k.Key, k.Actor, id)
	}
	return id, err
}

// takeRequestKey keeps the context's key, if it has one, and forgets old ones.
// begins is the id of the run or of the batch.
func (t *tx) takeRequestKey(ctx context.Context, begins string) error {
	k, said := ctx.Value(requestKey{}).(RequestKey)
	if !said {
		return nil
	}
	if _, err := t.ExecContext(ctx, `DELETE FROM request_keys WHERE at <= $1`, micros(t.now.Add(-keepRequestKeys))); err != nil {
		return err
	}
	n, err := changed(t.ExecContext(ctx, `INSERT INTO request_keys (actor, name, digest, begins, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (actor, name) DO NOTHING`,
		k.Actor, k.Key, k.Digest, begins, micros(t.now)))
	if err != nil || n == 1 {
		return err
	}
	id, err := begun(ctx, t, k, t.now)
	if err != nil {
		return err
	}
	return &BegunBefore{id}
}
