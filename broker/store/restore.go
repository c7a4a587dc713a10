package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// Restore is a restore of this database from a backup.
type Restore struct {
	RestoredAt time.Time
	TakenAt    time.Time // the time of the backup; zero: not known
	Source     string    // names the backup
	TrustFloor int64     // the minimum version of the next trust bundle
	ReleasedAt time.Time // zero: still held
	ReleasedBy string
	Reason     string // of the release
}

// Held reports whether the database is held: no changing task or run is handed out yet.
func (r Restore) Held() bool { return !r.RestoredAt.IsZero() && r.ReleasedAt.IsZero() }

const restoreColumns = `restored_at, taken_at, source, trust_floor, released_at, released_by, reason`

func scanRestore(row sqlkit.Row) (r Restore, err error) {
	err = row.Scan(sqlkit.ScanMicros(&r.RestoredAt), sqlkit.ScanMicros(&r.TakenAt), &r.Source, &r.TrustFloor,
		sqlkit.ScanMicros(&r.ReleasedAt), &r.ReleasedBy, &r.Reason)
	return r, err
}

// LastRestore returns the latest restore; zero: the database was never restored.
func (db *DB) LastRestore(ctx context.Context) (Restore, error) {
	return lastRestore(ctx, db.reader())
}

func lastRestore(ctx context.Context, r sqlkit.Runner) (Restore, error) {
	found, err := scanRestore(r.QueryRowContext(ctx, `SELECT `+restoreColumns+` FROM restores ORDER BY id DESC LIMIT 1`))
	if errors.Is(err, sql.ErrNoRows) {
		return Restore{}, nil
	}
	return found, err
}

// Numbers seen by nodes and by readers of events continue from the time of the restore: in seconds
// for trust bundles and enrolments, in milliseconds for events. All numbers given out earlier are
// lower, both since the backup and after an earlier restore of the same backup. The leaps are the
// minimum increase, in case this machine's clock is behind.
const (
	trustLeap = 1_000
	eventLeap = 500_000
)

// Voided counts the records that a restore has invalidated.
type Voided struct {
	Nodes, EnrolTokens, OperatorTokens, Tasks, Runs int
}

// MarkRestored marks the database as restored from a backup, before any broker has opened it, and
// holds it. Until ReleaseRestore no chain advances, and only probes are handed out. Everything that
// may have ended since the backup is ended: enrol tokens, operators' tokens and tasks; runs are
// stopped for a person. Certificates from before the restore may only ask for renewal
// (RenewRestored), also after the release.
func (db *DB) MarkRestored(ctx context.Context, actor broker.Actor, takenAt time.Time, source string) (v Voided, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.nobodyServes(ctx); err != nil {
			return err
		}
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		if v, err = t.markRestored(ctx, actor, takenAt, source); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "broker.restore", Subject: "broker", Reason: source,
			After: small("taken_at", takenAt, "nodes", v.Nodes, "enrol_tokens", v.EnrolTokens, "operator_tokens", v.OperatorTokens,
				"tasks", v.Tasks, "runs", v.Runs),
		})
	})
	return v, err
}

// serveLock is shared by all brokers that serve from a PostgreSQL, as long as they live. A
// transaction that holds the database takes serveLock alone.
const serveLock = leadLock + 3

// nobodyServes refuses while a broker runs on the PostgreSQL, and makes a starting broker wait.
// Brokers of an earlier release take only the leader's lock, so both locks are checked. On SQLite
// the lock of the data directory serves this purpose.
func (t *tx) nobodyServes(ctx context.Context) error {
	if t.Name() != "postgres" {
		return nil
	}
	var free bool
	if err := t.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1) AND pg_try_advisory_xact_lock($2)`, int64(serveLock),
		int64(leadLock)).Scan(&free); err != nil || free {
		return err
	}
	return broker.Errorf(broker.Refused, "broker_running",
		"cannot mark this database as restored: a broker is running on it (stop all its brokers)")
}

func (t *tx) markRestored(ctx context.Context, actor broker.Actor, takenAt time.Time, source string) (v Voided, err error) {
	now := sqlkit.Micros(t.now)
	bundle, _, err := latestBundle(ctx, t)
	if err != nil {
		return v, err
	}
	last, err := lastRestore(ctx, t)
	if err != nil {
		return v, err
	}
	upTo, _, err := outboxEnds(ctx, t)
	if err != nil {
		return v, err
	}
	floor := max(max(bundle, last.TrustFloor)+trustLeap, t.now.Unix())
	from := max(upTo+eventLeap, t.now.UnixMilli())
	h := chain.SiteHold{
		Kind:   chain.Restored,
		Reason: "compare the database with the nodes and with MAAS, then run hostler-broker restore --release", By: actor.Name,
		Since: t.now,
	}
	for _, s := range []struct {
		rows *int
		sql  string
		args []any
	}{
		{
			nil,
			`INSERT INTO restores (restored_at, taken_at, source, trust_floor, events_upto, events_from) VALUES ($1, $2, $3, $4, $5, $6)`,
			[]any{now, sqlkit.Micros(takenAt), source, floor, upTo, from},
		},
		{nil, `UPDATE chain_holds SET until_at = $1 WHERE until_at = 0 AND kind = 'restored'`, []any{now}},
		{
			nil, `INSERT INTO chain_holds (site, kind, reason, placed_by, since) VALUES ('', $1, $2, $3, $4)`,
			[]any{string(h.Kind), h.Reason, h.By, now},
		},
		{nil, `DELETE FROM restored_differences`, nil},
		{nil, `DELETE FROM restored_nodes`, nil},
		{&v.Nodes, `INSERT INTO restored_nodes (node_id, known, epoch) SELECT id, TRUE, epoch FROM nodes WHERE status <> 'deleted'`, nil},
		{nil, `UPDATE certificates SET restored = TRUE WHERE NOT restored`, nil},
		{&v.EnrolTokens, `UPDATE enroll_tokens SET void_at = $1 WHERE consumed_at = 0 AND void_at = 0`, []any{now}},
		{&v.OperatorTokens, `UPDATE operator_tokens SET revoked_at = $1 WHERE revoked_at = 0`, []any{now}},
		// A node's certificates tell its present key. No key of a rotation is denied here.
		{nil, `UPDATE rotations SET void_at = $1 WHERE used_at = 0 AND void_at = 0`, []any{now}},
		{nil, `DELETE FROM terminal_tickets`, nil},
		{nil, `UPDATE terminal_sessions SET token_hash = '', next_token_hash = '' WHERE status <> 'closed'`, nil},
		{nil, `UPDATE outbox_tip SET position = $1`, []any{from}},
	} {
		n, err := sqlkit.Changed(t.ExecContext(ctx, s.sql, s.args...))
		if err != nil {
			return v, err
		}
		if s.rows != nil {
			*s.rows = int(n)
		}
	}
	if v.Tasks, err = t.forsakeTasks(ctx, actor); err != nil {
		return v, err
	}
	if v.Runs, err = t.stopRuns(ctx); err != nil {
		return v, err
	}
	return v, t.send(ctx, told{Message: h.Placed(), Site: AllSites})
}

// forsakeTasks ends the tasks that were open in the backup: the node may have run the task since,
// or an operator may have canceled it. A node's later word about the task is kept beside the task.
func (t *tx) forsakeTasks(ctx context.Context, actor broker.Actor) (int, error) {
	open, err := sqlkit.Collect(ctx, t, scanTask, `SELECT `+taskColumns+` FROM tasks WHERE status IN ('queued', 'dispatched') ORDER BY id`)
	for _, k := range open {
		if err := t.end(ctx, &k, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown,
			"the database was restored from a backup in which this task was open"); err != nil {
			return 0, err
		}
		if err := t.auditEnd(ctx, actor, k); err != nil {
			return 0, err
		}
	}
	return len(open), err
}

// stopRuns stops the runs that had not ended in the backup, each at its stage in the backup. Runs
// that were stopped already get this reason too: their old reason may be over, and no broker acts
// on the old reason by itself.
func (t *tx) stopRuns(ctx context.Context) (int, error) {
	ids, err := sqlkit.Collect(ctx, t, scanText, `SELECT id FROM chain_runs WHERE `+openRuns+` ORDER BY id`)
	for _, id := range ids {
		was, err := run(ctx, t, id, t.ForUpdate())
		if err != nil {
			return 0, err
		}
		c := was.Restored(t.now)
		stood := " was at stage " + was.Stage
		if f := was.Failure; was.Status.Stopped() && f != nil {
			stood += ", stopped by " + cmp.Or(f.Code, string(f.Class)) + ","
		}
		if _, err := t.act(ctx, was, c); err != nil {
			return 0, err
		}
		if err := t.noteDifference(ctx, Difference{
			Subject: "run/" + id, Code: "run_stopped",
			Text: "a " + was.Kind + " of " + was.Subject + stood + " in the backup; the run is stopped at that stage",
		}); err != nil {
			return 0, err
		}
	}
	return len(ids), err
}

// ReleaseRestore ends the hold. Nodes that have not been let in stay out. Codes: not_restored,
// restore_released.
func (db *DB) ReleaseRestore(ctx context.Context, actor broker.Actor, reason string) (r Restore, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		if r, err = lastRestore(ctx, t); err != nil {
			return err
		}
		switch {
		case r.RestoredAt.IsZero():
			return broker.Errorf(broker.Refused, "not_restored", "cannot release: this database was not restored from a backup")
		case !r.Held():
			return broker.Errorf(broker.Refused, "restore_released", "cannot release: %s already released this database at %s",
				r.ReleasedBy, r.ReleasedAt.Format(time.RFC3339))
		}
		r.ReleasedAt, r.ReleasedBy, r.Reason = t.now, actor.Name, reason
		if _, err := t.ExecContext(ctx, `UPDATE restores SET released_at = $1, released_by = $2, reason = $3 WHERE released_at = 0`,
			sqlkit.Micros(t.now), actor.Name, reason); err != nil {
			return err
		}
		lifted, err := sqlkit.Collect(ctx, t, scanHold, `UPDATE chain_holds SET until_at = $1 WHERE until_at = 0 AND kind = $2 RETURNING `+
			holdColumns, sqlkit.Micros(t.now), string(chain.Restored))
		if err != nil {
			return err
		}
		for _, h := range lifted {
			if err := t.send(ctx, told{Message: h.Lifted(0), Site: AllSites}); err != nil {
				return err
			}
		}
		t.hint(HintRun, "")
		if err := t.wakeFrozen(ctx, ""); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "broker.release", Subject: "broker", Reason: reason,
			Before: small("restored_at", r.RestoredAt, "source", r.Source),
		})
	})
	return r, err
}

// NotCompared names the sites and nodes not compared since the last restore, as one text each:
// sites whose machines were not read, and nodes that were let in but whose ledgers were not read.
func (db *DB) NotCompared(ctx context.Context) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), scanText,
		`SELECT 'site ' || n.site FROM restored_nodes r JOIN nodes n ON n.id = r.node_id WHERE r.known AND r.machine = '' AND n.maas_system_id <> '' AND n.status <> 'deleted'
		UNION SELECT 'site ' || substr(subject, 6) FROM restored_differences WHERE code = 'maas_unread'
		UNION SELECT 'node ' || node_id FROM restored_nodes WHERE let_in_at > 0 AND compared_at = 0 AND shut_at = 0 AND enrolled_at = 0
		ORDER BY 1 DESC`)
}

// SiteCompared deletes the note that a site's machines could not be read.
func (db *DB) SiteCompared(ctx context.Context, site string) error {
	listed, err := db.Differences(ctx)
	if err != nil || !slices.ContainsFunc(listed, func(d Difference) bool { return d.Subject == "site/"+site && d.Code == "maas_unread" }) {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `DELETE FROM restored_differences WHERE subject = $1 AND code = 'maas_unread'`, "site/"+site)
		return err
	})
}

// Difference is a difference between a restored database and the real state.
type Difference struct {
	Subject string // node/ID, run/ID, task/ID, machine/SITE/ID
	Code    string
	Text    string
	FoundAt time.Time
}

// Differences lists the differences found since the last restore, by subject.
func (db *DB) Differences(ctx context.Context) ([]Difference, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (d Difference, err error) {
		return d, row.Scan(&d.Subject, &d.Code, &d.Text, sqlkit.ScanMicros(&d.FoundAt))
	}, `SELECT subject, code, text, found_at FROM restored_differences ORDER BY subject, code`)
}

// NoteDifferences stores the found differences; known differences stay unchanged.
func (db *DB) NoteDifferences(ctx context.Context, found []Difference) error {
	listed, err := db.Differences(ctx)
	if err != nil {
		return err
	}
	type key struct{ subject, code string }
	known := make(map[key]bool, len(listed))
	for _, d := range listed {
		known[key{d.Subject, d.Code}] = true
	}
	found = slices.DeleteFunc(slices.Clone(found), func(d Difference) bool { return known[key{d.Subject, d.Code}] })
	if len(found) == 0 {
		return nil
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, d := range found {
			if err := t.noteDifference(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) noteDifference(ctx context.Context, d Difference) error {
	_, err := t.ExecContext(ctx,
		`INSERT INTO restored_differences (subject, code, text, found_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		d.Subject, d.Code, taskcatalog.Clean(d.Text, 500), sqlkit.Micros(t.now))
	return err
}
