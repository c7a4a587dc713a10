package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// History defines which tasks and runs are old. Old rows are deleted, unless a row that stays is
// shown from them or refers to them: see the rules.
type History struct {
	Before time.Time // ended before
	// Mark is the suffix of the id of a run that follows another run; the rest of the id is the
	// other run's id.
	Mark string
}

// LastKept is the number of tasks of each type, and of runs of each kind, that every node keeps
// regardless of age: a node's status is shown from them, and the node may still report on them.
const LastKept = 5

// HistoryPage is a cursor: the end and the id of the last row seen.
type HistoryPage struct {
	EndedAt int64
	ID      string
}

// oldRun is the condition for deleting a run, apart from its tasks, which are deleted first.
func (h History) oldRun(r string) string {
	return ruled("r", r,
		fmt.Sprintf(`{r}.status IN ('completed', 'cancelled', 'reconciled') AND {r}.completed_at > 0 AND {r}.completed_at < %d`,
			sqlkit.Micros(h.Before)),
		// Not among the last of its kind on a node.
		fmt.Sprintf(`NOT EXISTS (SELECT 1 FROM node_runs had WHERE had.run_id = {r}.id AND (SELECT newer.run_id FROM node_runs newer JOIN chain_runs other ON other.id = newer.run_id
			WHERE newer.node_id = had.node_id AND other.kind = {r}.kind AND (newer.since > had.since OR newer.since = had.since AND newer.run_id > had.run_id) LIMIT 1 OFFSET %d) IS NULL)`, LastKept-1),
		// Did not make a node, release it, deliver its agent, or repair its drift.
		`{r}.id NOT IN (SELECT made_by_run FROM nodes)`, `{r}.id NOT IN (SELECT run_id FROM releases)`,
		`{r}.id NOT IN (SELECT correlation_id FROM node_agents)`, `{r}.id NOT IN (SELECT delivery_id FROM node_agents)`,
		`{r}.id NOT IN (SELECT work FROM node_maas_state)`,
		// Did not end an allocation that is not certified yet; not the run of a node's last
		// certificate.
		`{r}.id NOT IN (SELECT forced_by FROM allocations WHERE certified_by = '')`,
		`{r}.id NOT IN (SELECT run_id FROM clean_certificates c WHERE NOT EXISTS (SELECT 1 FROM clean_certificates n WHERE n.node_id = c.node_id AND n.issued_at > c.issued_at))`,
		// Does not belong to a rollout, batch or run that stays. The existence of a follower tells
		// the broker not to begin the follower again.
		`NOT EXISTS (SELECT 1 FROM chain_runs p WHERE p.id = {r}.correlation_id AND p.id <> {r}.id)`,
		`NOT EXISTS (SELECT 1 FROM chain_runs b WHERE b.batch = {r}.batch AND b.batch <> '' AND b.status IN ('pending', 'running', 'compensating', 'failed_retryable', 'failed_manual_intervention'))`,
		fmt.Sprintf(`NOT EXISTS (SELECT 1 FROM chain_runs p WHERE p.id = CASE WHEN {r}.id LIKE '%%%s' THEN substr({r}.id, 1, length({r}.id) - %d) ELSE '' END)`, h.Mark, len(h.Mark)))
}

// ownTask is the condition for deleting a task, regardless of its run.
func (h History) ownTask(t string) string {
	return ruled("t", t, fmt.Sprintf(`{t}.status NOT IN ('queued', 'dispatched') AND {t}.ended_at > 0 AND {t}.ended_at < %d`,
		sqlkit.Micros(h.Before)),
		// Not among the last of its type on the node: facts and drains are shown from these tasks,
		// and a node reports its last update for as long as it runs.
		fmt.Sprintf(`(SELECT n.id FROM tasks n WHERE n.node_id = {t}.node_id AND n.type = {t}.type AND n.attempt > 0 AND n.id > {t}.id LIMIT 1 OFFSET %d) IS NOT NULL`, LastKept-1),
		// Not retried by another task, and not needed to count tries.
		`NOT EXISTS (SELECT 1 FROM tasks a WHERE a.retry_of = {t}.id AND a.retry_of <> '')`,
		`NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = {t}.node_id AND n.status = 'enrolling')`,
		`NOT EXISTS (SELECT 1 FROM resolver_wants w WHERE {t}.type = 'node.resolver_config' AND
			substr({t}.idempotency_key, 1, length('resolver-' || CAST(w.wanted_at AS TEXT) || '-')) = 'resolver-' || CAST(w.wanted_at AS TEXT) || '-')`,
		// Not the task of an allocation that is uncertified, or that never existed because of the
		// task.
		`NOT EXISTS (SELECT 1 FROM allocations a WHERE a.node_id = {t}.node_id AND a.task_id = {t}.id AND (a.certified_by = '' OR {t}.status <> 'succeeded'))`,
		// Not an operation that may still run on the node (UnendedOperation): the next turnover reimages the node for it.
		fmt.Sprintf(`NOT ({t}.type = '%s' AND {t}.status <> 'succeeded' AND {t}.attempt > 0 AND {t}.outcome = '' AND {t}.issued_at >
			COALESCE((SELECT MAX(c.issued_at) FROM clean_certificates c WHERE c.node_id = {t}.node_id AND c.mode = 'reimage'), 0))`, broker.OperationTask),
		// Not in use for an archive, a rotation, a terminal session, an agent or a drift.
		`NOT EXISTS (SELECT 1 FROM task_archives a WHERE a.task_id = {t}.id)`,
		`NOT EXISTS (SELECT 1 FROM rotations open WHERE open.task_id = {t}.id AND open.used_at = 0 AND open.void_at = 0)`,
		`{t}.id NOT IN (SELECT open_task FROM terminal_sessions WHERE status <> 'closed' OR NOT node_told)`,
		`{t}.id NOT IN (SELECT correlation_id FROM node_agents)`, `{t}.id NOT IN (SELECT delivery_id FROM node_agents)`,
		`{t}.id NOT IN (SELECT work FROM node_maas_state)`)
}

// oldTask is the condition for deleting a task. The tasks of a run are deleted together.
func (h History) oldTask(t string) string {
	return h.ownTask(t) + ruled("t", t, ` AND NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.id = {t}.correlation_id AND
		(NOT (`+h.oldRun("r")+`) OR EXISTS (SELECT 1 FROM tasks s WHERE s.correlation_id = r.id AND s.correlation_id <> '' AND NOT (`+
		h.ownTask("s")+`))))`)
}

// ruled joins terms and replaces the variable by the table's name.
func ruled(variable, table string, terms ...string) string {
	return strings.ReplaceAll(strings.Join(terms, "\n\t\tAND "), "{"+variable+"}", table)
}

// DropTasks examines the next limit old tasks after a page, and deletes the tasks that nothing
// needs, audited. It returns the next page; nil: the end.
func (db *DB) DropTasks(ctx context.Context, h History, after HistoryPage, limit int) (next *HistoryPage, err error) {
	return db.dropOld(ctx, dropped{
		table: "tasks", ended: "ended_at", rule: h.oldTask("o"), action: "task.dropped",
		with: []string{
			`DELETE FROM mint_tries WHERE task_id = $1`, `DELETE FROM mints WHERE task_id = $1`,
			`DELETE FROM task_envelopes WHERE task_id = $1`, `DELETE FROM tasks WHERE id = $1`,
		},
	}, h.Before, after, limit)
}

// DropRuns is DropTasks for runs, with all rows that they have written and their batches. A run
// stays as long as any of its tasks.
func (db *DB) DropRuns(ctx context.Context, h History, after HistoryPage, limit int) (next *HistoryPage, err error) {
	return db.dropOld(ctx, dropped{
		table: "chain_runs", ended: "completed_at", rule: h.oldRun("o") +
			` AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.correlation_id = o.id AND k.correlation_id <> '')`, action: "run.dropped",
		with: []string{
			`DELETE FROM chain_events WHERE run_id = $1`, `DELETE FROM rollout_members WHERE run_id = $1`,
			`DELETE FROM node_runs WHERE run_id = $1`,
			`DELETE FROM chain_batches WHERE id IN (SELECT batch FROM chain_runs WHERE id = $1 AND batch <> '') AND NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.batch = chain_batches.id AND r.batch <> '' AND r.id <> $1)`,
			`DELETE FROM chain_runs WHERE id = $1`,
		},
	}, h.Before, after, limit)
}

// dropped describes a table whose old rows are deleted.
type dropped struct {
	table, ended string
	rule         string   // the condition for deleting row o
	with         []string // the statements that delete row $1 and its dependents, the row last
	action       string   // in the audit log
}

func (db *DB) dropOld(ctx context.Context, d dropped, before time.Time, after HistoryPage, limit int) (next *HistoryPage, err error) {
	var ids []string
	seen := 0
	// Selected outside the transaction: the rows that stay are read again each time, and are many
	// more.
	if _, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (p HistoryPage, err error) {
		goes := false
		if err = row.Scan(&p.ID, &p.EndedAt, &goes); goes {
			ids = append(ids, p.ID)
		}
		seen, after = seen+1, p
		return p, err
	}, `SELECT o.id, o.`+d.ended+`, CASE WHEN `+d.rule+` THEN TRUE ELSE FALSE END FROM `+d.table+` o WHERE o.`+d.ended+` > 0 AND o.`+d.ended+` < $1
		AND (o.`+d.ended+` > $2 OR o.`+d.ended+` = $2 AND o.id > $3) ORDER BY o.`+d.ended+
		`, o.id LIMIT $4`, sqlkit.Micros(before), after.EndedAt, after.ID, limit); err != nil {
		return nil, err
	}
	if seen == limit {
		next = &after
	}
	if len(ids) == 0 {
		return next, nil
	}
	return next, db.write(ctx, func(ctx context.Context, t *tx) error {
		var w sqlkit.Where
		sqlkit.In(&w, "o.id", ids)
		w.Add(d.rule)
		still, err := sqlkit.Collect(ctx, t, scanText, `SELECT o.id FROM `+d.table+` o`+w.String()+` ORDER BY o.id`+t.ForUpdate(),
			w.Args...)
		if err != nil || len(still) == 0 {
			return err
		}
		for _, id := range still {
			for _, statement := range d.with {
				if _, err := t.ExecContext(ctx, statement, id); err != nil {
					return err
				}
			}
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: "system", Action: d.action, Subject: d.table,
			After: small(d.table, len(still), "ended_before", before.UTC().Format(time.RFC3339)),
		})
	})
}
