package store_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// old is a node that has had, two years ago, tasks k-0 to k-6 of a type, and runs r-0 to r-6 of a
// kind: the first two of each are deletable. Ids begin with the node's name.
type old struct {
	*testing.T
	db   *store.DB
	name string
	node broker.Node
}

func newOld(t *testing.T, db *store.DB, name string) *old {
	o := &old{T: t, db: db, name: name, node: newMember(t, db, name)}
	o.exec(`UPDATE nodes SET status = 'active' WHERE id = '{n}'`)
	for i := range store.LastKept + 2 {
		o.task(fmt.Sprintf("%sk-%d", name, i))
		o.run(fmt.Sprintf("%sr-%d", name, i))
	}
	return o
}

// exec runs a statement in which {n} is the node, {} its name and {u} the present time.
func (o *old) exec(statement string) {
	o.Helper()
	now := fmt.Sprint(o.db.Now().UnixMicro())
	ok(o.T, store.Exec(ctx, o.db, strings.NewReplacer("{n}", o.node.ID, "{}", o.name, "{u}", now).Replace(statement)))
}

// task inserts a succeeded task.
func (o *old) task(id string) {
	o.Helper()
	k := newTask(o.db, o.node, taskcatalog.LaneExclusive)
	k.ID = id
	_, _, err := o.db.InsertTask(ctx, admin, k)
	ok(o.T, err)
	o.exec(`UPDATE tasks SET status = 'succeeded', attempt = 1, ended_at = {u} WHERE id = '` + id + `'`)
}

// run inserts a completed run of the node.
func (o *old) run(id string) {
	o.Helper()
	ok(o.T, o.db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
		ID: id, Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, DueAt: o.db.Now(), RequestedBy: "ada",
	}, Locks: []string{"node/" + o.node.ID}}}, nil))
	r := must(o.db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}))(o.T)
	r.Status = chain.Completed
	ok(o.T, o.db.Save(ctx, chain.Change{
		Record: *r, Effects: []any{broker.SaveMembers{{Member: []byte(`{}`)}}},
		Events: []chain.Event{{Stage: "s", Direction: chain.Forward, Attempt: 1, Status: chain.Succeeded}},
	}))
}

// left returns the ids with the node's name that exist, except those that always stay.
func (o *old) left() string {
	o.Helper()
	var left []string
	for _, id := range append(must(store.Left(ctx, o.db, "tasks", "id"))(o.T), must(store.Left(ctx, o.db, "chain_runs", "id"))(o.T)...) {
		own, its := strings.CutPrefix(id, o.name)
		if its && !slices.Contains([]string{"k-2", "k-3", "k-4", "k-5", "k-6", "r-2", "r-3", "r-4", "r-5", "r-6"}, own) {
			left = append(left, own)
		}
	}
	return strings.Join(left, " ")
}

// aged advances the clock by two years, and returns the matching History.
func aged(db *store.DB, clock *storetest.Clock) store.History {
	clock.Advance(2 * 365 * 24 * time.Hour)
	return store.History{Before: db.Now().Add(-400 * 24 * time.Hour), Mark: "-reimage"}
}

// drop deletes old rows, page after page.
func drop(t *testing.T, db *store.DB, h store.History, limit int) {
	t.Helper()
	for p := new(store.HistoryPage); p != nil; {
		p = must(db.DropTasks(ctx, h, *p, limit))(t)
	}
	for p := new(store.HistoryPage); p != nil; {
		p = must(db.DropRuns(ctx, h, *p, limit))(t)
	}
}

func TestWhatIsOldGoesWithAllThatIsOfIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		o := newOld(t, db, "x")
		h := aged(db, clock)
		o.exec(`INSERT INTO mint_tries (task_id, tries, next_at) VALUES ('xk-0', 1, 0)`)
		o.exec(`INSERT INTO mints (task_id, attempt, credential_type, at) VALUES ('xk-0', 1, 'x', 0)`)
		o.exec(`INSERT INTO chain_batches (id, kind, site, parallel, stop_after, requested_by, requested_at) VALUES ('b', 'k', 'dc1', 1, 0, 'ada', 0)`)
		o.exec(`UPDATE chain_runs SET batch = 'b' WHERE id IN ('xr-0', 'xr-1')`)
		before := len(must(db.ListAudit(ctx, store.AuditFilter{}))(t))
		if drop(t, db, h, 500); o.left() != "" {
			t.Errorf("left are %s", o.left())
		}
		for table, id := range map[string]string{"task_envelopes": "task_id", "mints": "task_id", "mint_tries": "task_id", "chain_events": "run_id", "rollout_members": "run_id", "node_runs": "run_id", "chain_batches": "id"} {
			for _, id := range must(store.Left(ctx, db, table, id))(t) {
				if slices.Contains([]string{"xk-0", "xk-1", "xr-0", "xr-1", "b"}, id) {
					t.Errorf("%s has %s", table, id)
				}
			}
		}
		for action, subject := range map[string]string{"task.dropped": "tasks", "run.dropped": "chain_runs"} {
			rows := must(db.ListAudit(ctx, store.AuditFilter{Action: action}))(t)
			if len(rows) != 1 || rows[0].Subject != subject || !strings.Contains(string(rows[0].After), fmt.Sprintf(`"%s":2`, subject)) || !strings.Contains(string(rows[0].After), h.Before.UTC().Format(time.RFC3339)) {
				t.Errorf("audited %+v", rows)
			}
		}
		if n := len(must(db.ListAudit(ctx, store.AuditFilter{}))(t)); n != before+2 {
			t.Errorf("the audit log has %d rows, had %d", n, before)
		}
		if drop(t, db, h, 500); o.left() != "" || len(must(db.ListAudit(ctx, store.AuditFilter{}))(t)) != before+2 {
			t.Errorf("once more it leaves %s", o.left())
		}
	})
}

// Kept tasks and runs: each row makes something refer to the first task or run.
func TestWhatIsOldAndStays(t *testing.T) {
	const session = `INSERT INTO terminal_sessions (id, node_id, node_epoch, site, allocation_id, username, opened_by, reason, max_seconds, idle_seconds, detach_seconds, record_input, replica, status, created_at, status_at, open_task, node_told)
		VALUES ('{}s', '{n}', 1, '', '', 'u', 'ada', '', 1, 1, 1, FALSE, '', '%s', 0, 0, '{}k-0', %s)`
	const allocation = `INSERT INTO allocations (node_id, allocation_id, username, tenant, had_root, task_id, since, ended_at, forced_by, certified_by) VALUES ('{n}', 'a', 'u', 't', FALSE, '{}%s', 0, 1, '{}%s', '%s')`
	const certificate = `INSERT INTO clean_certificates (id, run_id, node_id, node_epoch, site, mode, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until, file) VALUES ('{}%s', '{}%s', '{n}', 1, '', '', '', TRUE, '', '', %d, 0, '')`
	const agent = `INSERT INTO node_agents (node_id, %s) VALUES ('{n}', '{}%s') ON CONFLICT (node_id) DO UPDATE SET %[1]s = excluded.%[1]s`
	const drift = `INSERT INTO node_maas_state (node_id, site_id, maas_system_id, last_maas_status, last_maas_power_state, last_maas_ips, host, marked, last_reconciled_at, work) VALUES ('{n}', '', '', '', '', '', '', TRUE, 0, '{}%s')`
	const other = `INSERT INTO chain_runs (id, kind, site, batch, subject, correlation_id, status, stage, direction, attempt, progress, state, due_at, spread, requested_by, requested_at, updated_at, completed_at)
		VALUES ('{}%s', 'z', 'dc1', '%s', '', '{}%s', '%s', 's', 'forward', 1, '{}', '{}', 0, 0, 'ada', 0, 0, %s)`
	unended := []string{`UPDATE tasks SET type = 'operation.run', outcome = 'failed' WHERE node_id = '{n}'`, `UPDATE tasks SET status = 'expired', outcome = '' WHERE id = '{}k-0'`}
	type row struct {
		left string
		as   []string
	}
	rows := map[string]row{
		"a task that has not ended":                  {"k-0", []string{`UPDATE tasks SET status = 'dispatched', ended_at = 0 WHERE id = '{}k-0'`}},
		"one that has ended since":                   {"k-0", []string{`UPDATE tasks SET ended_at = ended_at + 34560000000000 WHERE id = '{}k-0'`}},
		"the last of its type":                       {"k-0", []string{`UPDATE tasks SET type = 'node.self_update' WHERE id = '{}k-0'`}},
		"the last of its type that the node had":     {"k-0 k-1", []string{`UPDATE tasks SET attempt = 0 WHERE id IN ('{}k-5', '{}k-6')`}},
		"one that was tried again":                   {"k-0", []string{`UPDATE tasks SET retry_of = '{}k-0' WHERE id = '{}k-6'`}},
		"a try of a node that enrols":                {"k-0 k-1", []string{`UPDATE nodes SET status = 'enrolling' WHERE id = '{n}'`}},
		"a try of profiles that are wanted":          {"k-0", []string{`UPDATE tasks SET type = 'node.resolver_config' WHERE node_id = '{n}'`, `UPDATE tasks SET idempotency_key = 'resolver-77-1' WHERE id = '{}k-0'`, `UPDATE tasks SET idempotency_key = 'resolver-7-1' WHERE id = '{}k-1'`, `INSERT INTO resolver_sets (digest, version, profiles, pushed_by, pushed_at) VALUES ('d', 'v', '', '', 0)`, `INSERT INTO resolver_wants (selector, digest, wanted_by, wanted_at) VALUES ('all', 'd', '', 77)`}},
		"that let a tenant in who is not certified":  {"k-0", []string{fmt.Sprintf(allocation, "k-0", "", "")}},
		"that let a tenant in who is":                {"", []string{fmt.Sprintf(allocation, "k-0", "", "c")}},
		"that let nobody in, by which nobody was":    {"k-0", []string{fmt.Sprintf(allocation, "k-0", "", "c"), `UPDATE tasks SET status = 'expired' WHERE id = '{}k-0'`}},
		"an operation that may still run":            {"k-0", unended},
		"an operation that a reimage has ended":      {"", append(slices.Clone(unended), `INSERT INTO clean_certificates (id, run_id, node_id, node_epoch, site, mode, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until, file) SELECT '{}c', '{}r-6', '{n}', 1, '', 'reimage', '', TRUE, '', '', MAX(issued_at), 0, '' FROM tasks`)},
		"that collected what is kept":                {"k-0", []string{`INSERT INTO task_archives (task_id, node_id, digest, bytes, at, data) VALUES ('{}k-0', '{n}', '', 0, 0, '')`}},
		"a rotation that goes on":                    {"k-0", []string{`INSERT INTO rotations (task_id, node_id, epoch, key_digest, serial, remote, issued_at) VALUES ('{}k-0', '{n}', 1, '', '{}', '', 0)`}},
		"a rotation that is over":                    {"", []string{`INSERT INTO rotations (task_id, node_id, epoch, key_digest, serial, remote, issued_at, used_at) VALUES ('{}k-0', '{n}', 1, '', '{}', '', 0, 1)`}},
		"the opening of a terminal":                  {"k-0", []string{fmt.Sprintf(session, "open", "TRUE")}},
		"of a terminal whose node does not know yet": {"k-0", []string{fmt.Sprintf(session, "closed", "FALSE")}},
		"of a terminal that is closed":               {"", []string{fmt.Sprintf(session, "closed", "TRUE")}},
		"the node's last update":                     {"k-0", []string{fmt.Sprintf(agent, "delivery_id", "k-0")}},
		"the node's last delivery":                   {"k-0", []string{fmt.Sprintf(agent, "correlation_id", "k-0")}},
		"a task that mends a drift":                  {"k-0", []string{fmt.Sprintf(drift, "k-0")}},
		"of a run that stays":                        {"k-0 k-1", []string{`UPDATE tasks SET correlation_id = '{}r-6' WHERE id IN ('{}k-0', '{}k-1')`}},
		"of a run that has not ended":                {"k-0 r-0", []string{`UPDATE tasks SET correlation_id = '{}r-0' WHERE id = '{}k-0'`, `UPDATE chain_runs SET status = 'failed_manual_intervention', completed_at = 0 WHERE id = '{}r-0'`}},
		"of a run of which a task ended since":       {"k-0 k-1 r-0", []string{`UPDATE tasks SET correlation_id = '{}r-0' WHERE id IN ('{}k-0', '{}k-1')`, `UPDATE tasks SET ended_at = ended_at + 34560000000000 WHERE id = '{}k-1'`}},
		"of a run that goes":                         {"", []string{`UPDATE tasks SET correlation_id = '{}r-0' WHERE id IN ('{}k-0', '{}k-1')`}},
		"of a run of which another task stays":       {"k-0 k-1 r-0", []string{`UPDATE tasks SET correlation_id = '{}r-0' WHERE id IN ('{}k-0', '{}k-1', '{}k-2')`}},
		"of a request that was no run":               {"", []string{`UPDATE tasks SET correlation_id = 'q' WHERE id IN ('{}k-0', '{}k-6')`}},

		"a run that is under way":                     {"r-0", []string{`UPDATE chain_runs SET status = 'failed_retryable', completed_at = 0 WHERE id = '{}r-0'`}},
		"a run that ended since":                      {"r-0", []string{`UPDATE chain_runs SET completed_at = completed_at + 34560000000000 WHERE id = '{}r-0'`}},
		"the last of its kind of a node":              {"r-0", []string{`UPDATE chain_runs SET kind = 'node.decommission' WHERE id = '{}r-0'`}},
		"that made the node":                          {"r-0", []string{`UPDATE nodes SET made_by_run = '{}r-0' WHERE id = '{n}'`}},
		"that gave the node back":                     {"r-0", []string{`INSERT INTO releases (node_id, run_id, cut_at) VALUES ('{n}', '{}r-0', 0)`}},
		"that gave the node its agent":                {"r-0", []string{fmt.Sprintf(agent, "correlation_id", "r-0")}},
		"of which the node tells":                     {"r-0", []string{fmt.Sprintf(agent, "delivery_id", "r-0")}},
		"a run that mends a drift":                    {"r-0", []string{fmt.Sprintf(drift, "r-0")}},
		"that ended a tenancy without a certificate":  {"r-0", []string{fmt.Sprintf(allocation, "x", "r-0", "")}},
		"that ended one with":                         {"", []string{fmt.Sprintf(allocation, "x", "r-0", "c")}},
		"of the node's last certificate":              {"r-0", []string{fmt.Sprintf(certificate, "c1", "r-1", 1), fmt.Sprintf(certificate, "c2", "r-0", 2)}},
		"of a rollout that goes on":                   {"r-0 z", []string{fmt.Sprintf(other, "z", "", "", "running", "0"), `UPDATE chain_runs SET correlation_id = '{}z' WHERE id = '{}r-0'`}},
		"of a batch that goes on":                     {"r-0 z", []string{fmt.Sprintf(other, "z", "{}b", "", "pending", "0"), `UPDATE chain_runs SET batch = '{}b' WHERE id = '{}r-0'`}},
		"of a batch that is over":                     {"", []string{`UPDATE chain_runs SET batch = '{}b' WHERE id IN ('{}r-0', '{}r-6')`}},
		"in the place of one that stays":              {"r-6-reimage", []string{fmt.Sprintf(other, "r-6-reimage", "", "", "completed", "1")}},
		"in the place of none":                        {"", []string{fmt.Sprintf(other, "y-reimage", "", "", "completed", "1"), fmt.Sprintf(other, "-reimage", "", "", "completed", "1")}},
		"that asked for itself":                       {"", []string{`UPDATE chain_runs SET correlation_id = '{}r-0' WHERE id = '{}r-0'`}},
		"a run without a node":                        {"", []string{fmt.Sprintf(other, "z", "", "", "cancelled", "1")}},
		"a run without a node that has a task of one": {"k-0 z", []string{fmt.Sprintf(other, "z", "", "", "cancelled", "1"), `UPDATE tasks SET correlation_id = '{}z', type = 'other' WHERE id = '{}k-0'`}},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		all := map[string]*old{}
		for i, name := range slices.Sorted(maps.Keys(rows)) {
			all[name] = newOld(t, db, fmt.Sprintf("x%02d", i))
		}
		h := aged(db, clock)
		for name, o := range all {
			for _, statement := range rows[name].as {
				o.exec(statement)
			}
		}
		drop(t, db, h, 50)
		for name, o := range all {
			if left := o.left(); left != rows[name].left {
				t.Errorf("%s: left are %q, want %q", name, left, rows[name].left)
			}
		}
	})
}

// A broker that dies between two pages leaves the rest to the next broker. Each page is audited by
// itself; a page without deletions is not audited.
func TestWhatIsOldGoesPageByPage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		o := newOld(t, db, "x")
		h := aged(db, clock)
		o.exec(`UPDATE tasks SET correlation_id = 'xr-0' WHERE id IN ('xk-0', 'xk-1')`)
		next := must(db.DropTasks(ctx, h, store.HistoryPage{}, 1))(t)
		if left := o.left(); left != "k-1 r-0 r-1" || next == nil || next.ID != "xk-0" {
			t.Fatalf("after a page %s, next %+v", left, next)
		}
		if next := must(db.DropRuns(ctx, h, store.HistoryPage{}, 500))(t); next != nil || o.left() != "k-1 r-0" {
			t.Fatalf("a run goes before its tasks: %s", o.left())
		}
		if drop(t, db, h, 2); o.left() != "" {
			t.Errorf("left are %s", o.left())
		}
		if n := len(must(db.ListAudit(ctx, store.AuditFilter{Action: "task.dropped"}))(t)); n != 2 {
			t.Errorf("%d pages of tasks are audited", n)
		}
	})
}
