package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

var _ chain.Store = (*DB)(nil)

// HintRun announces that a run may have become due. ID is empty.
const HintRun HintKind = "run"

const runColumns = `id, kind, list, site, batch, subject, correlation_id, status, stage, direction, attempt, progress, state, entered_at, due_at, version,
	lease_owner, lease_until, held, waiting, asked, asked_by, asked_reason, failure_class, error_code, error_message, error_details, next_action,
	requested_by, requested_at, started_at, completed_at, updated_at`

func runFields(r *chain.Record, f *chain.Failure) []any {
	return []any{
		&r.ID, &r.Kind, &r.List, &r.Site, &r.Batch, &r.Subject, &r.CorrelationID, &r.Status, &r.Stage, &r.Direction, &r.Attempt,
		sqlkit.ScanJSON(&r.Progress), sqlkit.ScanRawJSON(&r.State),
		sqlkit.ScanMicros(&r.EnteredAt), sqlkit.ScanMicros(&r.DueAt), &r.Version, &r.Owner, sqlkit.ScanMicros(&r.LeaseTill), &r.Held,
		&r.Waiting, &r.Asked, &r.AskedBy, &r.AskedCause,
		&f.Class, &f.Code, &f.Message, sqlkit.ScanRawJSON(&f.Details), &r.NextAction, &r.RequestedBy, sqlkit.ScanMicros(&r.RequestedAt),
		sqlkit.ScanMicros(&r.StartedAt), sqlkit.ScanMicros(&r.CompletedAt), sqlkit.ScanMicros(&r.UpdatedAt),
	}
}

func scanRun(row sqlkit.Row) (chain.Record, error) {
	var r chain.Record
	var f chain.Failure
	err := row.Scan(runFields(&r, &f)...)
	if f.Class != "" {
		r.Failure = &f
	}
	return r, err
}

// run reads one run; lock is the row lock's SQL, or empty.
func run(ctx context.Context, r sqlkit.Runner, id, lock string) (chain.Record, error) {
	out, err := scanRun(r.QueryRowContext(ctx, `SELECT `+runColumns+` FROM chain_runs WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return out, chain.NotFound("run", id)
	}
	return out, err
}

// Insert implements chain.Store.
func (db *DB) Insert(ctx context.Context, runs []chain.NewRun, batch *chain.Batch) error {
	return db.verdict(ctx, func(ctx context.Context, t *tx) error {
		begins := ""
		switch {
		case batch != nil:
			begins = batch.ID
		case len(runs) > 0:
			begins = runs[0].ID
		}
		if err := t.takeRequestKey(ctx, begins); err != nil {
			return err
		}
		if batch != nil {
			if err := t.insertBatch(ctx, *batch); err != nil {
				return err
			}
		}
		var taken []chain.Taken
		for _, r := range runs {
			if err := t.insertRun(ctx, r); err != nil {
				return err
			}
			for _, e := range r.Effects {
				if err := t.applyToRun(ctx, r.Record, e); err != nil {
					return err
				}
			}
			more, err := t.takeLocks(ctx, r.ID, r.Locks)
			if err != nil {
				return err
			}
			taken = append(taken, more...)
		}
		if taken != nil {
			return &chain.Locked{Taken: taken}
		}
		t.hint(HintRun, "")
		t.now = t.clock() // taking the locks may have taken time
		return t.requested(ctx, runs, batch)
	})
}

// requested writes the time and the requester of runs that hold all their locks.
func (t *tx) requested(ctx context.Context, runs []chain.NewRun, batch *chain.Batch) error {
	if batch != nil {
		batch.RequestedAt = t.now
		if _, err := t.ExecContext(ctx, `UPDATE chain_batches SET requested_at = $1 WHERE id = $2`, sqlkit.Micros(t.now),
			batch.ID); err != nil {
			return err
		}
	}
	for i, r := range runs {
		r.Record = r.Stamped(t.now)
		r.RequestedAt = t.now
		runs[i] = r
		if _, err := t.ExecContext(ctx, `UPDATE chain_runs SET requested_at = $1, updated_at = $1 WHERE id = $2`, sqlkit.Micros(t.now),
			r.ID); err != nil {
			return err
		}
		if err := t.audit(ctx, broker.AuditEntry{
			Actor: r.RequestedBy, Action: "run.start", Subject: "run/" + r.ID, Reason: r.Reason, CorrelationID: r.CorrelationID,
			After: small("kind", r.Kind, "site", r.Site, "of", r.Subject, "batch", r.Batch, "role", r.Role),
		}); err != nil {
			return err
		}
	}
	return nil
}

// verdict is write for transactions that chains may refuse; it returns chain's refusals unchanged.
func (db *DB) verdict(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	var no error
	err := db.write(ctx, func(ctx context.Context, t *tx) error {
		no = nil
		err := fn(ctx, t)
		if errors.Is(err, chain.ErrLost) || isA[*chain.Locked](err) || isA[*chain.EffectRefused](err) || isA[*chain.Refused](err) ||
			isA[*BegunBefore](err) {
			no = err
		}
		return err
	})
	if no != nil {
		return no
	}
	return err
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func (t *tx) insertRun(ctx context.Context, r chain.NewRun) error {
	n, err := sqlkit.Changed(t.ExecContext(ctx,
		`INSERT INTO chain_runs (id, kind, site, batch, subject, correlation_id, status, stage, direction, attempt, progress, state, due_at, spread,
			requested_by, requested_at, updated_at, list) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17) ON CONFLICT (id) DO NOTHING`,
		r.ID, r.Kind, r.Site, r.Batch, r.Subject, r.CorrelationID, string(r.Status), r.Stage, string(r.Direction), r.Attempt,
		sqlkit.JSON(r.Progress), string(r.State),
		sqlkit.Micros(r.DueAt), r.Spread, r.RequestedBy, sqlkit.Micros(t.now), r.List))
	if err == nil && n == 0 {
		return chain.Exists("run", r.ID)
	}
	return err
}

// takeLocks takes locks for a run and returns the locks that other runs hold. It takes locks in
// sorted order, so that two runs that want the same locks do not deadlock.
func (t *tx) takeLocks(ctx context.Context, runID string, names []string) (taken []chain.Taken, err error) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO chain_locks (name, run_id, taken_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`, name, runID,
			sqlkit.Micros(t.now)))
		if err != nil {
			return nil, err
		}
		if n == 1 {
			if err := t.hadBy(ctx, name, runID); err != nil {
				return nil, err
			}
			continue
		}
		var by string
		if err := t.QueryRowContext(ctx, `SELECT run_id FROM chain_locks WHERE name = $1`, name).Scan(&by); err != nil {
			return nil, err
		}
		if by != runID {
			taken = append(taken, chain.Taken{Lock: name, Run: by})
		}
	}
	return taken, nil
}

// hadBy records that a run has had a node, if the lock is a node's or an agent's: the lock itself
// is deleted when the run ends.
func (t *tx) hadBy(ctx context.Context, lock, runID string) error {
	kind, nodeID, _ := strings.Cut(lock, "/")
	if kind != "node" && kind != "agent" {
		return nil
	}
	if kind == "node" {
		t.hint(HintNode, nodeID)
	}
	_, err := t.ExecContext(ctx,
		`INSERT INTO node_runs (node_id, run_id, since) VALUES ($1, $2, $3) ON CONFLICT (node_id, run_id) DO NOTHING`, nodeID, runID,
		sqlkit.Micros(t.now))
	return err
}

// Run implements chain.Store.
func (db *DB) Run(ctx context.Context, id string) (chain.Record, error) {
	r, err := run(ctx, db.reader(), id, "")
	if err != nil {
		return r, err
	}
	all, err := db.heldBy(ctx, []chain.Record{r})
	if err != nil {
		return r, err
	}
	return all[0], nil
}

// heldBy sets in each run the holds that the run waits for.
func (db *DB) heldBy(ctx context.Context, runs []chain.Record) ([]chain.Record, error) {
	standing, err := sqlkit.Collect(ctx, db.reader(), scanHold, `SELECT `+holdColumns+` FROM chain_holds WHERE until_at = 0 ORDER BY id`)
	for i := range runs {
		runs[i] = runs[i].HeldBy(standing)
	}
	return runs, err
}

// Runs implements chain.Store.
func (db *DB) Runs(ctx context.Context, f chain.Filter) ([]chain.Record, error) {
	return db.runs(ctx, f, sqlkit.Where{})
}

// RunsOfNode is Runs restricted to runs that have had the node; it does not read other runs.
func (db *DB) RunsOfNode(ctx context.Context, nodeID string, f chain.Filter) ([]chain.Record, error) {
	var w sqlkit.Where
	w.Add("id IN (SELECT run_id FROM node_runs WHERE node_id = ?)", nodeID)
	return db.runs(ctx, f, w)
}

func (db *DB) runs(ctx context.Context, f chain.Filter, w sqlkit.Where) ([]chain.Record, error) {
	if f.Kind != "" {
		lists := f.Kind + "/"
		w.Add("(kind = ? OR substr(kind, 1, ?) = ?)", f.Kind, utf8.RuneCountInString(lists), lists)
	}
	w.Equal("site", f.Site)
	w.Equal("batch", f.Batch)
	if f.Batch != "" {
		w.Add("batch <> ''") // as the index requires
	}
	w.Equal("stage", f.Stage)
	w.Equal("failure_class", string(f.Class))
	sqlkit.In(&w, "status", f.Statuses)
	if len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, chain.Status.Ended) {
		w.Add(openRuns)
	}
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	query := `SELECT ` + runColumns + ` FROM chain_runs` + w.String() + ` ORDER BY id` + w.Limit(cmp.Or(f.Limit, 100))
	runs, err := sqlkit.Collect(ctx, db.reader(), scanRun, query, w.Args...)
	if err != nil {
		return nil, err
	}
	return db.heldBy(ctx, runs)
}

// Events implements chain.Store.
func (db *DB) Events(ctx context.Context, runID string) ([]chain.Event, error) {
	return sqlkit.Collect(ctx, db.reader(), scanEvent, `SELECT `+eventColumns+` FROM chain_events WHERE run_id = $1 ORDER BY id`, runID)
}

// RecentEvents returns the last events of a run, and of each stage the last start and the last end.
// A run that is retried for long has thousands of events, and a watching client asks again and
// again.
func (db *DB) RecentEvents(ctx context.Context, runID string, last int) ([]chain.Event, error) {
	return sqlkit.Collect(ctx, db.reader(), scanEvent, recentEvents, runID, last)
}

// recentEvents jumps from stage to stage, and to the end of each stage; events in between are not
// read.
const recentEvents = `WITH RECURSIVE stages (stage) AS (
		SELECT MIN(stage) FROM chain_events WHERE run_id = $1
		UNION ALL SELECT (SELECT MIN(e.stage) FROM chain_events e WHERE e.run_id = $1 AND e.stage > s.stage) FROM stages s WHERE s.stage IS NOT NULL
	) SELECT ` + eventColumns + ` FROM chain_events WHERE id IN (
		SELECT id FROM (SELECT id FROM chain_events WHERE run_id = $1 ORDER BY id DESC LIMIT $2) AS tail
		UNION SELECT (SELECT MAX(e.id) FROM chain_events e WHERE e.run_id = $1 AND e.stage = s.stage AND (CASE e.status WHEN 'started' THEN 1 ELSE 0 END) = 1) FROM stages s
		UNION SELECT (SELECT MAX(e.id) FROM chain_events e WHERE e.run_id = $1 AND e.stage = s.stage AND (CASE e.status WHEN 'started' THEN 1 ELSE 0 END) = 0) FROM stages s
	) ORDER BY id`

const eventColumns = `id, run_id, at, stage, direction, attempt, status, message, details`

func scanEvent(row sqlkit.Row) (e chain.Event, err error) {
	err = row.Scan(&e.ID, &e.RunID, sqlkit.ScanMicros(&e.At), &e.Stage, &e.Direction, &e.Attempt, &e.Status, &e.Message,
		sqlkit.ScanRawJSON(&e.Details))
	return e, err
}

// openRuns selects runs that have not ended, as the index chain_runs_open requires. A query for a
// subset of these statuses adds openRuns too, to use that index.
const openRuns = `status IN ('pending', 'running', 'compensating', 'failed_retryable', 'failed_manual_intervention')`

// NextDue implements chain.Store.
func (db *DB) NextDue(ctx context.Context) (time.Time, error) {
	var next sql.NullInt64
	// Runs that wait in a batch, claimed by no broker, may be due already by the thousands.
	err := db.reader().QueryRowContext(ctx, `SELECT MIN(due) FROM (
			SELECT MIN(CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END) AS due FROM chain_runs WHERE `+freely+
		` AND (due_at > $1 OR lease_until > $1)
			UNION ALL SELECT MIN(due_at) FROM chain_runs WHERE batch <> '' AND status = 'pending' AND due_at > $1
			UNION ALL SELECT MIN(probe_at) FROM chain_holds WHERE until_at = 0 AND kind = 'unreachable' AND probe_at > $1
		) AS moments`, sqlkit.Micros(db.Now())).Scan(&next)
	if err != nil || !next.Valid {
		return time.Time{}, err
	}
	return time.UnixMicro(next.Int64).UTC(), nil
}

// Wake implements chain.Store.
func (db *DB) Wake(ctx context.Context) <-chan struct{} {
	wake := make(chan struct{}, 1)
	hints := db.Hints(ctx)
	go func() {
		for h := range hints {
			if !h.Is(HintRun) {
				continue
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return wake
}
