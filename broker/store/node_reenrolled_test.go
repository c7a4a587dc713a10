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

// comes enrols a node of machine abc with the given facts, and returns its claimed baseline task.
func comes(t *testing.T, db *store.DB, nodeID, token string, f *taskcatalog.Facts) broker.Task {
	t.Helper()
	ok(t, db.IssueToken(ctx, admin, nodeID, "hash-"+token, db.Now().Add(time.Hour), "run"))
	in := enrollment(db, "hash-"+token, "key-"+token)
	in.MAASSystemID = "abc"
	in.Report.Facts, in.Report.Digest = f, token
	e := must(db.Enroll(ctx, in))(t)
	k := enqueue(t, db, e.Node, taskcatalog.LaneConcurrent)
	_, _, err := db.ClaimTasks(ctx, nodeID, e.Node.Epoch, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1)
	ok(t, err)
	return k
}

// tells ends a node's baseline task.
func tells(t *testing.T, db *store.DB, k broker.Task, digest string) {
	t.Helper()
	_, _, err := db.RecordResult(ctx, store.Result{NodeID: k.NodeID, Epoch: k.NodeEpoch, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded},
		[]broker.Effect{broker.SaveBaseline{Digest: digest, Baseline: []byte("{}")}, broker.LetIn{}})
	ok(t, err)
}

// A machine that is deployed anew is judged by its own reports, not by the reports of the wiped
// system.
func TestANodeThatEnrolsAgainIsLetInByItsOwnBaseline(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := onboarded("n-1", "r-1", "abc")
		n.Disks = []broker.Device{{ID: "d1", Place: "nvme0n1"}, {ID: "d2", Place: "nvme1n1"}, {ID: "d3", Place: "nvme2n1"}}
		must(db.OnboardNode(ctx, admin, n))(t)
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: []byte("{}")}, Locks: []string{"node/n-1"}}}, nil))
		known := false
		asks := func() (bool, string) {
			t.Helper()
			active, lacks, err := db.Activate(ctx, admin, "n-1", "onboarded", func(_ broker.Node, _ taskcatalog.Facts, is bool, _ []broker.Device) (string, string) {
				known = is
				return "", ""
			})
			ok(t, err)
			return active, lacks
		}
		has := func(want string) {
			t.Helper()
			if got := stand(must(db.Devices(ctx, "n-1"))(t)); got != want {
				t.Fatalf("it has\n  %s, want\n  %s", got, want)
			}
		}

		tells(t, db, comes(t, db, "n-1", "first", parts("d1 d4", "g1")), "sha256:first")
		must(db.AcceptDevices(ctx, admin, "n-1", []string{"d3"}, false, "RMA 7"))(t)
		has("d1:found d2:missing d4:unexpected d3:removed")

		ok(t, store.SaveReport(ctx, db, "n-1", store.NodeReport{Digest: "chassis", Facts: &taskcatalog.Facts{ChassisSerial: "SN-1"}}))
		serial := func() string { return must(db.ColumnsOf(ctx, []string{"n-1"}))(t)["n-1"].Serial }
		if serial() != "SN-1" {
			t.Fatalf("its chassis is %q", serial())
		}
		late := comes(t, db, "n-1", "second", nil)
		if serial() != "" {
			t.Fatalf("after it enrolled again its chassis is %q: the machine may be another one", serial())
		}
		if _, lacks := asks(); !strings.Contains(lacks, "baseline") {
			t.Fatalf("after it enrolled again it lacks %q", lacks)
		}
		if _, _, err := db.Facts(ctx, "n-1"); broker.AsError(err).Code != "facts_unknown" {
			t.Errorf("the facts are those of the system that is gone (%v)", err)
		}
		has("d1:expected d2:expected d3:removed")
		if got := audited(t, db, "node.baseline", ""); got != 2 {
			t.Errorf("%d changes of the baseline are audited", got)
		}

		last := comes(t, db, "n-1", "third", parts("d1 d2", "g1"))
		tells(t, db, late, "sha256:second") // the report of an earlier enrolment comes too late
		if _, lacks := asks(); !strings.Contains(lacks, "baseline") {
			t.Fatalf("with the baseline of an enrolment that is over it lacks %q", lacks)
		}
		tells(t, db, last, "sha256:third")
		if active, lacks := asks(); !active || !known {
			t.Fatalf("active %v, lacks %q, its facts known %v", active, lacks, known)
		}
		has("d1:found d2:found d3:removed g1:found")
		if n := must(db.Node(ctx, "n-1"))(t); n.BaselineDigest != "sha256:third" || n.Epoch != 3 {
			t.Errorf("it has baseline %s of epoch %d", n.BaselineDigest, n.Epoch)
		}
	})
}

// A tenant's changes to a machine must not become the baseline: a node that was let in keeps its
// baseline, its facts and its parts.
func TestANodeThatWasLetInKeepsItsBaselineWhenItEnrolsAgain(t *testing.T) {
	for _, status := range []broker.NodeStatus{broker.Active, broker.Quarantined} {
		t.Run(string(status), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				n := onboarded("n-1", "r-1", "abc")
				n.Disks = []broker.Device{{ID: "d1", Place: "nvme0n1"}}
				must(db.OnboardNode(ctx, admin, n))(t)
				tells(t, db, comes(t, db, "n-1", "first", parts("d1", "g1")), "sha256:first") // no run has the node, so it is let in
				if status == broker.Quarantined {
					must(db.Transition(ctx, admin, "n-1", store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "x"}))(t)
				}
				again := comes(t, db, "n-1", "second", nil)
				tells(t, db, again, "sha256:second")
				got := must(db.Node(ctx, "n-1"))(t)
				_, _, err := db.Facts(ctx, "n-1")
				if got.Status != status || got.Epoch != 2 || got.BaselineDigest != "sha256:first" || err != nil {
					t.Errorf("it is %s, epoch %d, with baseline %s and facts %v", got.Status, got.Epoch, got.BaselineDigest, err)
				}
				if parts := stand(must(db.Devices(ctx, "n-1"))(t)); parts != "d1:found g1:found" {
					t.Errorf("it has %s", parts)
				}
			})
		})
	}
}
