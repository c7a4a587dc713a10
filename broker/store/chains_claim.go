package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// claimable is the condition for claiming a run, besides its kind. $1 is now.
const claimable = `due_at <= $1 AND lease_until <= $1
	AND site NOT IN (SELECT site FROM chain_holds WHERE until_at = 0 AND (kind = 'freeze' OR probe_at > $1))
	AND NOT EXISTS (SELECT 1 FROM chain_holds WHERE until_at = 0 AND site = '')
	AND (held OR site NOT IN (SELECT site FROM chain_runs WHERE held AND status IN ('pending', 'running', 'compensating')))`

// Runs that are moving, and runs without a batch, are claimed before runs that wait for a place in
// a batch.
const (
	freely = `(status IN ('running', 'compensating') OR status = 'pending' AND batch = '')` // as the index requires
	// withRoom selects batches with a waiting run that may begin, whose site has a free place and
	// no hold.
	withRoom = `SELECT id FROM chain_batches b WHERE EXISTS (SELECT 1 FROM chain_runs w WHERE w.batch <> '' AND w.batch = b.id AND w.status = 'pending' AND (b.stopped_at = 0 OR w.started_at > 0))
		AND NOT EXISTS (SELECT 1 FROM chain_holds h WHERE h.until_at = 0 AND h.site IN ('', b.site) AND h.kind <> 'unreachable')
		AND parallel > (SELECT COUNT(*) FROM chain_runs m WHERE m.batch <> '' AND m.site = b.site AND m.status IN ('running', 'compensating'))`
	// inBatch reads waiting runs in the order of their due time, as the index chain_runs_next
	// requires: the first run nearly always qualifies. By batch, thousands of runs would be sorted.
	inBatch = `batch <> '' AND status = 'pending' AND (started_at > 0 OR batch NOT IN (SELECT id FROM chain_batches WHERE stopped_at > 0))
		AND batch || '' IN (` + withRoom + `)`
)

// errAgain ends a transaction that lost a race for a row other than the run's.
var errAgain = errors.New("claim again")

const claimTries = 20

// Claim implements chain.Store.
func (db *DB) Claim(ctx context.Context, c chain.Claim) (*chain.Record, error) {
	if len(c.Kinds) == 0 {
		return nil, nil
	}
	if r, err := db.claimAmong(ctx, c, freely); r != nil || err != nil {
		return r, err
	}
	var room bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (`+withRoom+`)`).Scan(&room); err != nil || !room {
		return nil, err
	}
	return db.claimAmong(ctx, c, inBatch)
}

func (db *DB) claimAmong(ctx context.Context, c chain.Claim, among string) (claimed *chain.Record, err error) {
	// Reading first saves a turn to write.
	query, args := claimQuery(c, among, db.Now())
	var id string
	if err := db.reader().QueryRowContext(ctx, query, args...).Scan(&id); errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for range claimTries {
		err = db.write(ctx, func(ctx context.Context, t *tx) error {
			claimed, err = t.claim(ctx, c, among)
			return err
		})
		if !errors.Is(err, errAgain) {
			return claimed, err
		}
	}
	return nil, nil // other brokers are claiming
}

func claimQuery(c chain.Claim, among string, now time.Time) (string, []any) {
	w := sqlkit.Where{Args: []any{sqlkit.Micros(now)}, Terms: []string{among, claimable}}
	sqlkit.In(&w, "kind", c.Kinds)
	if c.Lists != nil {
		strange := sqlkit.Where{Args: w.Args}
		sqlkit.In(&strange, "list", append([]string{""}, c.Lists...))
		strange.Add(`(status <> 'pending' AND due_at <= ? AND updated_at <= ?)`, sqlkit.Micros(now.Add(-chain.Strange)),
			sqlkit.Micros(now.Add(-chain.Strange)))
		w.Args, w.Terms = strange.Args, append(w.Terms, "("+strings.Join(strange.Terms, " OR ")+")")
	}
	return `SELECT id FROM chain_runs` + w.String() + ` ORDER BY due_at, id LIMIT 1`, w.Args
}

func (t *tx) claim(ctx context.Context, c chain.Claim, among string) (*chain.Record, error) {
	if err := t.passFreezes(ctx); err != nil { // before the run's row is locked
		return nil, err
	}
	query, args := claimQuery(c, among, t.now)
	var id string
	err := t.QueryRowContext(ctx, query+t.ForUpdate()+t.SkipLocked(), args...).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	r, err := run(ctx, t, id, "") // a separate query: states are long and should not be sorted
	if err != nil {
		return nil, err
	}
	if r.Batch != "" && r.Status == chain.Pending {
		if err := t.takePlace(ctx, r); err != nil {
			return nil, err
		}
	}
	probe, err := t.takeProbe(ctx, r.Site)
	if err != nil {
		return nil, err
	}
	t.now = t.clock() // taking the place and passing the freeze may have taken time
	begun := r.Begin(c.Owner, c.Lease, t.now)
	if err := t.writeRun(ctx, begun.Record); err != nil {
		return nil, err
	}
	if err := t.tellOf(ctx, begun); err != nil {
		return nil, err
	}
	begun.Record.Probe = probe
	return &begun.Record, nil
}

// takePlace makes sure that the site has a place for another run of a batch, in a statement that
// sees what other transactions have committed meanwhile.
func (t *tx) takePlace(ctx context.Context, r chain.Record) error {
	if lock := t.ForUpdate(); lock != "" { // in one order, as two claims may be of two batches
		if _, err := t.ExecContext(ctx, `SELECT id FROM chain_batches WHERE site = $1 AND id IN (SELECT batch FROM chain_runs
			WHERE site = $1 AND batch <> '' AND status IN ('pending', 'running', 'compensating')) ORDER BY id`+lock, r.Site); err != nil {
			return err
		}
	}
	b, err := batch(ctx, t, r.Batch, "")
	if err != nil {
		return err
	}
	var moving int
	if err := t.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM chain_runs WHERE batch <> '' AND site = $1 AND status IN ('running', 'compensating')`,
		r.Site).Scan(&moving); err != nil {
		return err
	}
	if moving >= b.Parallel || !b.StoppedAt.IsZero() && r.StartedAt.IsZero() {
		return errAgain
	}
	return nil
}

// takeProbe checks the site's holds again: since the run was chosen, a hold may have been placed,
// or another claim may have taken the probe.
func (t *tx) takeProbe(ctx context.Context, site string) (probe bool, err error) {
	holds, err := sqlkit.Collect(ctx, t, scanHold, `SELECT `+holdColumns+` FROM chain_holds WHERE until_at = 0 AND site IN ('', $1)`, site)
	if err != nil || len(holds) == 0 {
		return false, err
	}
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`UPDATE chain_holds SET probe_at = $1 WHERE site = $2 AND kind = 'unreachable' AND until_at = 0 AND probe_at <= $3`,
		sqlkit.Micros(t.now.Add(chain.ProbeEvery)), site, sqlkit.Micros(t.now)))
	if err == nil && n < int64(len(holds)) {
		err = errAgain
	}
	return true, err
}

// Renew implements chain.Store.
func (db *DB) Renew(ctx context.Context, r *chain.Record, lease time.Duration) error {
	var n int64
	err := db.write(ctx, func(ctx context.Context, t *tx) (err error) {
		n, err = sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE chain_runs SET lease_until = $1 WHERE id = $2 AND version = $3 AND lease_owner = $4 AND lease_until > $5`,
			sqlkit.Micros(t.now.Add(lease)), r.ID, r.Version, r.Owner, sqlkit.Micros(t.now)))
		return err
	})
	if err == nil && n == 0 {
		return chain.ErrLost
	}
	return err
}
