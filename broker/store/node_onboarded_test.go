package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func onboarded(id, run, systemID string) store.NewNode {
	return store.NewNode{ID: id, Hostname: "h-" + run, Site: "dc1", Bootstrap: "cloud-init", MAASSystemID: systemID, MadeByRun: run}
}

func TestARunMakesOneNodeHoweverOftenItIsAsked(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := must(db.OnboardNode(ctx, admin, onboarded("n-1", "r-1", "abc")))(t)
		again := must(db.OnboardNode(ctx, admin, onboarded("n-2", "r-1", "abc")))(t)
		if n.ID != "n-1" || again.ID != "n-1" || n.Status != broker.Enrolling || n.Epoch != 0 {
			t.Fatalf("made %+v, then %+v", n, again)
		}
		if moved := must(db.OnboardNode(ctx, admin, onboarded("n-2", "r-1", "xyz")))(t); moved.ID != "n-1" || moved.MAASSystemID != "xyz" {
			t.Errorf("bound %+v", moved)
		}
		if own := must(db.BoundNode(ctx, "dc1", "xyz", "r-1"))(t); own != "" {
			t.Errorf("a run's own node %s is in its way", own)
		}
		if by := must(db.BoundNode(ctx, "dc1", "xyz", "r-2"))(t); by != "n-1" {
			t.Errorf("the machine is bound to %q", by)
		}
		if by := must(db.BoundNode(ctx, "dc2", "xyz", "r-2"))(t); by != "" {
			t.Errorf("another site's machine is bound to %s", by)
		}
		other := onboarded("n-3", "r-3", "def")
		other.Hostname = "h-r-1"
		_, err := db.OnboardNode(ctx, admin, other)
		refused(t, err, "hostname_taken")
	})
}

func TestUndoRemovesOnlyANodeThatNeverEnrolled(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		if kept := must(db.RemoveOnboarded(ctx, admin, "r-none", "undo"))(t); kept != "" {
			t.Errorf("kept %s of nothing", kept)
		}
		must(db.OnboardNode(ctx, admin, onboarded("n-1", "r-1", "")))(t)
		ok(t, db.IssueToken(ctx, admin, "n-1", "hash-1", clock.Now().Add(time.Hour), "run"))
		if k := must(db.EnrollTokens(ctx, "n-1"))(t); k.Issued != 1 || k.OpenHash != "hash-1" {
			t.Errorf("tokens %+v", k)
		}
		if kept := must(db.RemoveOnboarded(ctx, admin, "r-1", "undo"))(t); kept != "" {
			t.Errorf("kept %s, which never enrolled", kept)
		}
		_, err := db.Enroll(ctx, enrollment(db, "hash-1", "key"))
		refused(t, err, "node_deleted")
		if k := must(db.EnrollTokens(ctx, "n-1"))(t); k.Issued != 1 || k.OpenHash != "" {
			t.Errorf("tokens of a deleted node %+v", k)
		}
		must(db.RemoveOnboarded(ctx, admin, "r-1", "undo"))(t)

		if n := must(db.OnboardNode(ctx, admin, onboarded("n-2", "r-1", "")))(t); n.ID != "n-2" {
			t.Fatalf("after it was taken back, the run has %s", n.ID)
		}
		ok(t, db.IssueToken(ctx, admin, "n-2", "hash-2", clock.Now().Add(time.Hour), "run"))
		if e := enroll(t, db, "hash-2", "key"); e.Node.Status != broker.Enrolling || e.Node.Epoch != 1 {
			t.Errorf("enrolled %+v", e.Node)
		}
		if k := must(db.EnrollTokens(ctx, "n-2"))(t); k.OpenHash != "" {
			t.Errorf("a used token is open: %+v", k)
		}
		if kept := must(db.RemoveOnboarded(ctx, admin, "r-1", "undo"))(t); kept != "n-2" {
			t.Errorf("kept %q", kept)
		}
		if n := must(db.Node(ctx, "n-2"))(t); n.Status != broker.Enrolling {
			t.Errorf("it is %s", n.Status)
		}
	})
}

func TestANodeInTheHandsOfARunIsLetInByIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.OnboardNode(ctx, admin, onboarded("n-1", "r-1", "")))(t)
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}, Locks: []string{"node/n-1"}}}, nil))
		lacks := func(want string) {
			t.Helper()
			active, lacks, err := db.Activate(ctx, admin, "n-1", "onboarded", nil)
			if err != nil || active != (want == "") || !strings.Contains(lacks, want) {
				t.Fatalf("active %v, lacks %q, %v; want %q", active, lacks, err, want)
			}
		}
		lacks("agent has not enrolled")
		ok(t, db.IssueToken(ctx, admin, "n-1", "hash-1", clock.Now().Add(time.Hour), "run"))
		e := enroll(t, db, "hash-1", "key")
		lacks("baseline")
		k, _, err := db.InsertTask(ctx, admin, newTask(db, e.Node, taskcatalog.LaneConcurrent))
		ok(t, err)
		_, _, err = db.ClaimTasks(ctx, "n-1", 1, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1)
		ok(t, err)
		_, _, err = db.RecordResult(ctx, store.Result{NodeID: "n-1", Epoch: 1, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded},
			[]broker.Effect{broker.SaveBaseline{Digest: "sha256:b", Baseline: []byte("{}")}, broker.LetIn{}})
		ok(t, err)
		if n := must(db.Node(ctx, "n-1"))(t); n.Status != broker.Enrolling || n.BaselineDigest == "" {
			t.Fatalf("before the run says so it is %s, baseline %q", n.Status, n.BaselineDigest)
		}
		lacks("")
		lacks("")
		if n := must(db.Node(ctx, "n-1"))(t); n.Status != broker.Active {
			t.Errorf("it is %s", n.Status)
		}
	})
}

// A run that starts from scratch readmits a node that the broker's own checks have quarantined. It
// does not readmit a node that a person keeps out, or that was ever in use.
func TestOnlyWhatTheBrokersOwnChecksKeepOutEnrolsAnew(t *testing.T) {
	own := store.Change{To: broker.Quarantined, By: broker.OwnerOnboarding, Reason: "no baseline"}
	persons := store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "it smells"}
	for _, test := range []struct {
		name    string
		let     bool // let in, before the quarantine
		changes []store.Change
		renewed bool
	}{
		{"the checks", false, []store.Change{own}, true},
		{"a person", false, []store.Change{persons}, false},
		{"the checks, and then a person", false, []store.Change{own, persons}, false},
		{"a person, and then the checks", false, []store.Change{persons, own}, false},
		{"one that was in use", true, []store.Change{{To: broker.Quarantined, By: broker.OwnerReconciler, Reason: "odd"}}, false},
		{"one that owes a turnover", false, []store.Change{{To: broker.Quarantined, By: broker.OwnerOnboarding, OweTurnover: true, Reason: "odd"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				must(db.OnboardNode(ctx, admin, onboarded("n-1", "r-1", "abc")))(t)
				if !test.let { // a run has the node, and no baseline lets it in
					ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}, Locks: []string{"node/n-1"}}}, nil))
				}
				tells(t, db, comes(t, db, "n-1", "first", parts("d1", "g1")), "sha256:first")
				for _, c := range test.changes {
					must(db.Transition(ctx, admin, "n-1", c))(t)
				}
				before := must(db.Node(ctx, "n-1"))(t)
				if test.name == "the checks, and then a person" {
					must(db.Transition(ctx, admin, "n-1", store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "again"}))(t)
					rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "node.transition", Limit: 100}))(t)
					if last := rows[len(rows)-1].Reason; last != persons.Reason || before.StatusReason != persons.Reason {
						t.Errorf("it is kept out for %q, and the last row says %q", before.StatusReason, last)
					}
				}
				why := must(db.RenewOnboarded(ctx, admin, "r-1", "from the ground"))(t)
				n := must(db.Node(ctx, "n-1"))(t)
				if before.Status != broker.Quarantined || (why == "") != test.renewed || (n.Status == broker.Enrolling) != test.renewed {
					t.Fatalf("it was %s and is %s: %q", before.Status, n.Status, why)
				}
				if !test.renewed {
					return
				}
				// Only a new enrolment, with its own baseline, is let in.
				tells(t, db, comes(t, db, "n-1", "second", parts("d1", "g1")), "sha256:second")
				if active, lacks, err := db.Activate(ctx, admin, "n-1", "onboarded", nil); !active || err != nil {
					t.Fatalf("lacks %q, %v", lacks, err)
				}
				if n := must(db.Node(ctx, "n-1"))(t); n.BaselineDigest != "sha256:second" {
					t.Errorf("its baseline is %s", n.BaselineDigest)
				}
				if why := must(db.RenewOnboarded(ctx, admin, "r-1", "again"))(t); why != "" {
					t.Errorf("one that is active: %s", why)
				}
			})
		})
	}
}

// While a run moves, its undo depends on its node's status; until the run has ended, the undo needs
// the node's record.
func TestWhatAPersonMayDoToANodeInTheHandsOfARun(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.OnboardNode(ctx, admin, onboarded("n-1", "r-1", "")))(t)
		ok(t, db.IssueToken(ctx, admin, "n-1", "hash-1", clock.Now().Add(time.Hour), "run"))
		e := enroll(t, db, "hash-1", "key")
		k, _, err := db.InsertTask(ctx, admin, newTask(db, e.Node, taskcatalog.LaneConcurrent))
		ok(t, err)
		_, _, err = db.ClaimTasks(ctx, "n-1", 1, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1)
		ok(t, err)
		record := chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: record, Locks: []string{"node/n-1"}}}, nil))
		_, _, err = db.RecordResult(ctx, store.Result{NodeID: "n-1", Epoch: 1, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded},
			[]broker.Effect{broker.SaveBaseline{Digest: "sha256:b", Baseline: []byte("{}")}})
		ok(t, err)
		move := func(to broker.NodeStatus, by broker.Owner) error {
			_, err := db.Transition(ctx, admin, "n-1", store.Change{To: to, By: by, Reason: "x"})
			return err
		}

		refused(t, move(broker.Deleted, broker.OwnerRemoval), "node_in_run")
		ok(t, move(broker.Quarantined, broker.OwnerOperator))
		refused(t, move(broker.Active, broker.OwnerOperator), "node_in_run")
		refused(t, move(broker.Active, broker.OwnerOverride), "node_in_run")
		refused(t, move(broker.Draining, broker.OwnerOperator), "node_in_run")
		refused(t, db.NodeInRun(ctx, e.Node, broker.Deleted), "node_in_run")
		if n := must(db.Node(ctx, "n-1"))(t); n.Status != broker.Quarantined || audited(t, db, "node.transition", "node_in_run") != 4 {
			t.Fatalf("it is %s, and %d refusals are audited", n.Status, audited(t, db, "node.transition", "node_in_run"))
		}

		_, err = db.Act(ctx, chain.Order{ID: "r-1", Action: chain.MarkManual}, func(_ time.Time, r chain.Record) (chain.Change, error) {
			r.Status = chain.FailedManual
			return chain.Change{Record: r}, nil
		})
		ok(t, err)
		ok(t, move(broker.Active, broker.OwnerOperator)) // the run has stopped: a person may let the node in
		ok(t, move(broker.Draining, broker.OwnerOperator))
		ok(t, move(broker.Retired, broker.OwnerDrain))
		refused(t, move(broker.Removing, broker.OwnerRemoval), "node_in_run")

		_, err = db.Act(ctx, chain.Order{ID: "r-1", Action: chain.Cancel}, func(_ time.Time, r chain.Record) (chain.Change, error) {
			r.Status = chain.Cancelled
			return chain.Change{Record: r}, nil
		})
		ok(t, err)
		ok(t, move(broker.Removing, broker.OwnerRemoval))
	})
}
