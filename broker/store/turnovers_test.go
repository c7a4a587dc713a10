package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// member is an active node.
func member(t testing.TB, db *store.DB, hostname string) broker.Node {
	t.Helper()
	n := newMember(t, db, hostname)
	ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
	return must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
}

// letsIn asks for a user of an allocation.
func letsIn(db *store.DB, n broker.Node, allocation, tenant string, root bool) (broker.Task, error) {
	return letsInAs(db, newTask(db, n, taskcatalog.LaneExclusive), allocation, tenant, root)
}

// letsInBy is letsIn for a project, by a run.
func letsInBy(db *store.DB, n broker.Node, allocation, run string) (broker.Task, error) {
	k := newTask(db, n, taskcatalog.LaneExclusive)
	k.CorrelationID = run
	return letsInAs(db, k, allocation, "p-1", false)
}

func letsInAs(db *store.DB, k broker.Task, allocation, tenant string, root bool) (broker.Task, error) {
	k.Type, k.Class = "allocation.provision_user", taskcatalog.ClassMutating
	k.Params = json.RawMessage(fmt.Sprintf(`{"allocation_id":%q,"username":"u","ssh_keys":["k"],"tenant":%q,"sudo":%v}`, allocation, tenant, root))
	k, _, err := db.InsertTask(ctx, admin, k)
	return k, err
}

// ends records a node's result of a task.
func ends(t testing.TB, db *store.DB, k broker.Task, r store.Result, effects ...broker.Effect) {
	t.Helper()
	_, _, err := db.ClaimTasks(ctx, k.NodeID, k.NodeEpoch, lanes, 10)
	ok(t, err)
	r.NodeID, r.Epoch, r.TaskID, r.Attempt = k.NodeID, k.NodeEpoch, k.ID, 1
	_, _, err = db.RecordResult(ctx, r, effects)
	ok(t, err)
}

var done = store.Result{Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded}

func live(t testing.TB, db *store.DB, nodeID string) (ids []string) {
	t.Helper()
	for _, a := range must(db.Occupants(ctx, nodeID))(t) {
		if a.Live() {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func turn(n broker.Node, run string) store.Turnover {
	return store.Turnover{NodeID: n.ID, RunID: run, Reason: "the tenant left"}
}

// certified stores a certificate of a run.
func certified(t testing.TB, db *store.DB, n broker.Node, id, run string, meets bool) {
	t.Helper()
	must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{
		ID: id, RunID: run, NodeID: n.ID, NodeEpoch: n.Epoch, Mode: "soft_reset", MeetsPolicy: meets, Digest: "sha256:" + id, IssuedAt: db.Now(), ValidUntil: db.Now().Add(time.Hour), File: []byte("{}"),
	}))(t)
}

// An allocation is live from the request for its user until the user is known to be gone, or known
// never to have existed.
func TestAnAllocationIsLiveFromItsFirstWordToItsLast(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		is := func(when string, want int) {
			t.Helper()
			if got := live(t, db, n.ID); len(got) != want {
				t.Fatalf("%s: live are %v, want %d", when, got, want)
			}
		}
		k := must(letsIn(db, n, "a-1", "acme", false))(t)
		is("asked for", 1)
		ends(t, db, k, done)
		is("provisioned", 1)
		failed := must(letsIn(db, n, "a-2", "acme", true))(t)
		ends(t, db, failed, store.Result{Status: broker.TaskFailed, Outcome: taskcatalog.OutcomeFailed, Code: "handler_failed"})
		is("of one that failed nobody knows", 2)
		refusedTask := must(letsIn(db, n, "a-3", "acme", false))(t)
		ends(t, db, refusedTask, store.Result{Status: broker.TaskFailed, Outcome: taskcatalog.OutcomeRefused, Code: "node_draining"})
		is("one that the node refused never was", 2)
		canceled := must(letsIn(db, n, "a-4", "acme", false))(t)
		must(db.CancelTask(ctx, admin, canceled.ID, "no"))(t)
		is("nor one that was never delivered", 2)
		again := must(letsIn(db, n, "a-1", "acme", true))(t)
		ends(t, db, again, store.Result{Status: broker.TaskFailed, Outcome: taskcatalog.OutcomeRefused, Code: "bad_params"})
		is("one that is there stays, though more keys are refused", 2)

		revoke := newTask(db, n, taskcatalog.LaneExclusive)
		revoke, _, err := db.InsertTask(ctx, admin, revoke)
		ok(t, err)
		clock.Advance(time.Minute)
		ends(t, db, revoke, done, broker.EndAllocation{AllocationID: "a-1"})
		is("revoked", 1)
		all := must(db.Occupants(ctx, n.ID))(t)
		if len(all) != 2 || all[0].ID != "a-2" || all[1].ID != "a-1" || all[1].Tenant != "acme" || !all[1].HadRoot || all[1].EndedAt.IsZero() {
			t.Errorf("%+v", all)
		}
	})
}

// A release forced for billing is announced once, and the node stays in service.
func TestAForcedReleaseLeavesTheNodeAsItIs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		ends(t, db, must(letsIn(db, n, "a-1", "acme", false))(t), done)
		for range 2 { // done, but the answer was lost
			if forced := must(db.ForceRelease(ctx, admin, turn(n, "r-1"), "a-1"))(t); len(forced) != 1 || forced[0].Tenant != "acme" {
				t.Fatalf("%+v", forced)
			}
		}
		must(db.PlaceEvents(ctx, 100))(t)
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{"allocation.force_released"}})
		if err != nil || len(told) != 1 || audited(t, db, "allocation.force_release", "") != 1 {
			t.Errorf("told %+v, %v", told, err)
		}
		if n = must(db.Node(ctx, n.ID))(t); n.Status != broker.Active || n.TurnoverOwed {
			t.Errorf("the node is %s, owed %v", n.Status, n.TurnoverOwed)
		}
	})
}

func TestANodeIsHandedOutOnlyByItsRunsCertificate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		ends(t, db, must(letsIn(db, n, "a-1", "acme", false))(t), done)
		if last, _, err := db.LastOccupant(ctx, n.ID); err != nil || last != nil {
			t.Errorf("who is on it is not who was: %+v, %v", last, err)
		}
		_, err := db.BeginTurnover(ctx, admin, turn(n, "r-1"))
		refused(t, err, "allocation_live")
		if audited(t, db, "turnover.begin", "allocation_live") != 1 || must(db.Node(ctx, n.ID))(t).Status != broker.Active {
			t.Error("the refusal is not audited, or the node was moved")
		}
		_, err = db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-0") // another allocation was named
		refused(t, err, "allocation_live")
		_, err = db.ForceRelease(ctx, admin, turn(n, "r-1"), "a-0")
		refused(t, err, "allocation_live")
		if live := must(db.Occupants(ctx, n.ID))(t); len(live) != 1 || live[0].ForcedBy != "" || must(db.Node(ctx, n.ID))(t).Status != broker.Active {
			t.Errorf("who was not meant was ended: %+v", live)
		}
		for range 2 { // done, but the answer was lost
			if forced := must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t); len(forced) != 1 || forced[0].Tenant != "acme" {
				t.Fatalf("%+v", forced)
			}
		}
		must(db.PlaceEvents(ctx, 100))(t)
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{"allocation.force_released"}})
		if err != nil || len(told) != 1 {
			t.Errorf("told %+v, %v", told, err)
		}
		n = must(db.Node(ctx, n.ID))(t)
		if n.Status != broker.Draining || !n.TurnoverOwed {
			t.Fatalf("%s, owed %v", n.Status, n.TurnoverOwed)
		}
		_, err = letsIn(db, n, "a-2", "", false)
		refused(t, err, "node_status")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain, Reason: "drained"}))(t)

		end := func(run, id string) error { return db.EndTurnover(ctx, admin, turn(n, run), id) }
		refused(t, end("r-1", ""), "certificate_missing")
		certified(t, db, n, "c-short", "r-1", false)
		refused(t, end("r-1", "c-short"), "certificate_falls_short")
		certified(t, db, n, "c-other", "r-2", true)
		refused(t, end("r-1", "c-other"), "certificate_missing")
		old := n
		old.Epoch--
		certified(t, db, old, "c-old", "r-1", true)
		refused(t, end("r-1", "c-old"), "certificate_falls_short")
		certified(t, db, n, "c-1", "r-1", true)
		refused(t, end("r-1", "c-1"), "allocation_live") // forced, and its user still exists
		revoke, _, err := db.InsertTask(ctx, admin, newTask(db, n, taskcatalog.LaneExclusive))
		ok(t, err)
		ends(t, db, revoke, done, broker.EndAllocation{AllocationID: "a-1"})
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Retired {
			t.Fatalf("after all the refusals it is %s", got.Status)
		}
		if last, certified, err := db.LastOccupant(ctx, n.ID); err != nil || last == nil || last.ID != "a-1" || certified {
			t.Errorf("before, the last one is %+v, certified %v, %v", last, certified, err)
		}
		for range 2 {
			ok(t, end("r-1", "c-1"))
		}
		if last, certified, err := db.LastOccupant(ctx, n.ID); err != nil || last == nil || last.Tenant != "acme" || !certified {
			t.Errorf("after, the last one is %+v, certified %v, %v", last, certified, err)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Active || got.TurnoverOwed {
			t.Errorf("%s, owed %v", got.Status, got.TurnoverOwed)
		}
		if all := must(db.Occupants(ctx, n.ID))(t); len(all) != 0 {
			t.Errorf("the next tenant finds %+v", all)
		}
		page, next, err := db.CleanCertificates(ctx, store.CleanFilter{NodeID: n.ID, Limit: 3})
		if err != nil || len(page) != 3 || next == "" {
			t.Fatalf("%d certificates, %q, %v", len(page), next, err)
		}
		if page, next, err = db.CleanCertificates(ctx, store.CleanFilter{NodeID: n.ID, After: next}); err != nil || len(page) != 1 || next != "" {
			t.Fatalf("%d more certificates, %q, %v", len(page), next, err)
		}
		// A stored certificate stays unchanged.
		if kept := must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{ID: "c-short", MeetsPolicy: true, Digest: "sha256:else"}))(t); kept.MeetsPolicy {
			t.Error("a certificate was written over")
		}
	})
}

// A user requested at the moment when a turnover begins is either seen by the turnover, or refused.
func TestNobodyIsLetInWhileATurnoverBegins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i := range 20 {
			n := member(t, db, fmt.Sprintf("gpu-%d", i))
			var begun, let error
			var both sync.WaitGroup
			both.Go(func() { _, begun = db.BeginTurnover(ctx, admin, turn(n, "r")) })
			both.Go(func() { _, let = letsIn(db, n, "a-1", "", false) })
			both.Wait()
			if (begun == nil) == (let == nil) {
				t.Fatalf("turnover: %v; user: %v", begun, let)
			}
		}
	})
}

// A user whose task is about to be queued when a run takes a node in service is seen by that run,
// or is refused.
func TestAUserWhoIsBeingLetInIsSeenByARunThatTakesTheNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i := range 20 {
			n := member(t, db, fmt.Sprintf("gpu-%d", i))
			var all []broker.Occupant
			var looked, let error
			var both sync.WaitGroup
			both.Go(func() { _, let = letsIn(db, n, "a-1", "acme", false) })
			both.Go(func() {
				run := chain.Record{ID: "r-" + n.ID, Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}
				if looked = db.Insert(ctx, []chain.NewRun{{Record: run, Locks: []string{"node/" + n.ID}}}, nil); looked == nil {
					all, looked = db.SettledOccupants(ctx, n.ID)
				}
			})
			both.Wait()
			if ok(t, looked); let == nil && len(all) == 0 {
				t.Fatal("a user was let in unseen")
			}
		}
	})
}

// While a run has a node in service, nobody is let in.
func TestNobodyIsLetInToANodeThatARunHas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}, Locks: []string{"node/" + n.ID}}}, nil))
		_, err := letsIn(db, n, "a-1", "", false)
		refused(t, err, "node_in_run")
	})
}

// A node that a person quarantined while a run had it is not let in by the run, unless a person
// tells the run to.
func TestAPersonsQuarantineOutlivesATurnover(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerTurnover, Reason: "a GPU is not clean"}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "it smells of smoke"}))(t)
		if err := db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"); broker.AsError(err).Code != "kept_out_by_person" {
			t.Errorf("it was let in: %v", err)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Quarantined || !got.TurnoverOwed {
			t.Errorf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
		u := turn(n, "r-1")
		u.Lifts.Person = true
		ok(t, db.EndTurnover(ctx, admin, u, "c-1"))
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Active || got.TurnoverOwed {
			t.Errorf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
	})
}

// A run that was judged by a node's status takes the node from that status only.
func TestATurnoverThatWasJudgedByAStatusTakesTheNodeFromThereAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		u := turn(n, "r-1")
		u.From = broker.Retired
		_, err := db.BeginTurnover(ctx, admin, u, "a-1")
		refused(t, err, "node_moved")
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Active || got.TurnoverOwed || audited(t, db, "turnover.begin", "node_moved") != 1 {
			t.Fatalf("the node is %s, owed %v, or the refusal is not audited", got.Status, got.TurnoverOwed)
		}
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Draining, By: broker.OwnerOperator}))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain}))(t)
		for range 2 { // done, but the answer was lost
			must(db.BeginTurnover(ctx, admin, u))(t)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Retired || !got.TurnoverOwed {
			t.Fatalf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
	})
}

// A stale certificate hands out nothing: the node may have changed since.
func TestAStaleCertificateHandsOutNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
		certified(t, db, n, "c-1", "r-1", true) // for an hour
		clock.Advance(time.Hour)
		refused(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"), "certificate_stale")
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Retired || !got.TurnoverOwed {
			t.Fatalf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
		certified(t, db, n, "c-2", "r-1", true)
		clock.Advance(time.Hour - time.Microsecond)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-2"))
		clock.Advance(time.Hour)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-2")) // done, but the answer was lost
	})
}

// The owner of a quarantine depends on the node's status at that moment; a node in any other status
// is left alone.
func TestWhoMovesANodeIsFoundWhereItIs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		c := store.Change{To: broker.Quarantined, OweTurnover: true, Owners: map[broker.NodeStatus]broker.Owner{
			broker.Active: broker.OwnerTurnover, broker.Quarantined: broker.OwnerTurnover,
		}}
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Offline, By: broker.OwnerHeartbeat}))(t)
		if got := must(db.Transition(ctx, admin, n.ID, c))(t); got.Status != broker.Offline || got.TurnoverOwed {
			t.Fatalf("one that is not theirs is %s, owed %v", got.Status, got.TurnoverOwed)
		}
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerHeartbeat}))(t)
		for range 2 {
			if got := must(db.Transition(ctx, admin, n.ID, c))(t); got.Status != broker.Quarantined || !got.TurnoverOwed {
				t.Fatalf("it is %s, owed %v", got.Status, got.TurnoverOwed)
			}
		}
	})
}

// The agent's report of its own removal deletes its node if the turnover that asked for the removal
// has the node. No other report does.
func TestTheWordThatATurnoverAskedForDeletesItsNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		run := chain.Record{ID: "r-1", Kind: broker.TurnoverKinds + "/full_decommission", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: run, Locks: []string{"node/" + n.ID}}}, nil))
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		for _, to := range []broker.NodeStatus{broker.Retired, broker.Removing} {
			must(db.Transition(ctx, admin, n.ID, store.Change{To: to, By: broker.OwnerTurnover}))(t)
		}
		gone := broker.SetStatus{From: broker.Removing, To: broker.Deleted, By: broker.OwnerRemoval, Reason: "the agent has removed itself"}
		for _, said := range []struct {
			run    string
			status broker.NodeStatus
		}{{"r-2", broker.Removing}, {"", broker.Removing}, {"r-1", broker.Deleted}} {
			k := newTask(db, n, taskcatalog.LaneConcurrent)
			k.CorrelationID = said.run
			k, _, err := db.InsertTask(ctx, admin, k)
			ok(t, err)
			ends(t, db, k, store.Result{Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded}, gone)
			if now := must(db.Node(ctx, n.ID))(t); now.Status != said.status {
				t.Errorf("after the word that %q asked for it is %s, want %s", said.run, now.Status, said.status)
			}
		}
		if refusals := audited(t, db, "node.transition", "node_in_run"); refusals != 2 {
			t.Errorf("%d refusals are audited", refusals)
		}
	})
}

// A turnover whose last answer was lost ends also when its node fell silent meanwhile: the node stays offline.
// A node that is owed a turnover again is not handed out by the old certificate.
func TestAHandOutWhoseAnswerWasLostIsNoneOfAnotherState(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "gpu-1")
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Offline, By: broker.OwnerHeartbeat}))(t)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Offline || got.TurnoverOwed {
			t.Errorf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET turnover_owed = TRUE WHERE id = $1`, n.ID))
		refused(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"), "transition_refused")
	})
}
