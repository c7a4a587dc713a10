package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A machine that is about to be given back loses its means to act: its certificates are denied, its
// token is void and its tasks have ended. Repeated calls change nothing.
func TestANodeIsCutOffBeforeItsMachineIsGivenBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		k := must(letsIn(db, n, "a-1", "acme", true))(t)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		ok(t, db.IssueToken(ctx, admin, n.ID, "hash", clock.Now().Add(time.Hour), "by hand"))
		for range 2 {
			ok(t, db.CutOff(ctx, admin, turn(n, "r-1")))
		}
		if got := must(db.Task(ctx, k.ID))(t); got.Status != broker.TaskFailed || got.Code != "node_released" {
			t.Errorf("the task is %s %s", got.Status, got.Code)
		}
		denied := must(db.DenyList(ctx, time.Time{}))(t)
		if len(denied) == 0 {
			t.Error("nothing is denied")
		}
		for serial, why := range denied {
			if why != store.DenyReleased {
				t.Errorf("%s is denied for %s", serial, why)
			}
		}
		if tokens := must(db.EnrollTokens(ctx, n.ID))(t); tokens.OpenHash != "" {
			t.Error("a token is open")
		}
		if got := live(t, db, n.ID); len(got) != 1 {
			t.Errorf("before MAAS has the machine, live are %v", got)
		}
		for range 2 {
			ok(t, db.Wiped(ctx, admin, turn(n, "r-1")))
		}
		if got := live(t, db, n.ID); len(got) != 0 {
			t.Errorf("MAAS has the machine, and live are %v", got)
		}
		// A repeated Wiped does not void the token of the run that continues.
		ok(t, db.IssueToken(ctx, admin, n.ID, "next", clock.Now().Add(time.Hour), "for the first boot"))
		ok(t, db.Wiped(ctx, admin, turn(n, "r-1")))
		if tokens := must(db.EnrollTokens(ctx, n.ID))(t); tokens.OpenHash != "next" {
			t.Errorf("the open token is %q", tokens.OpenHash)
		}
		for range 2 { // the token is withdrawn
			ok(t, db.VoidToken(ctx, admin, n.ID, "cancelled"))
		}
		if tokens := must(db.EnrollTokens(ctx, n.ID))(t); tokens.OpenHash != "" {
			t.Error("what was taken back is open")
		}
	})
}

// A certificate from before is shown. While the machine is on its way back, its old system is
// shutting down. Later the contact is a drift, announced once, and nobody gets the node.
func TestThePreviousSystemIsADrift(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		show := func() {
			t.Helper()
			clock.Advance(2 * time.Minute)
			ok(t, db.PreviousSystem(ctx, n.ID, "0a", "10.0.0.9"))
		}
		drift := func() store.MAASState {
			s, _, err := db.MAASState(ctx, n.ID)
			ok(t, err)
			return s
		}
		show()
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		ok(t, db.CutOff(ctx, admin, turn(n, "r-1")))
		show()
		if drift().Drift {
			t.Fatal("a system that is being released counts as one of before")
		}
		ok(t, db.Wiped(ctx, admin, turn(n, "r-1")))
		show()
		first := drift()
		if !first.Drift || first.Rule != store.RulePreviousSystem || first.Severity != "critical" {
			t.Fatalf("%+v", first)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Draining {
			t.Errorf("a node that a run has is %s", got.Status)
		}
		show()
		r, had, err := db.LastRelease(ctx, n.ID)
		if err != nil || !had || r.RunID != "r-1" || !r.ShownAt.Equal(clock.Now()) || r.Remote != "10.0.0.9" {
			t.Errorf("%+v, %v", r, err)
		}
		if again := drift(); !again.FirstSeen.Equal(first.FirstSeen) {
			t.Errorf("it was told of again at %v", again.FirstSeen)
		}
		// The node is handed out, and the old system comes back.
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		show()
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Quarantined || !got.TurnoverOwed {
			t.Errorf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
		}
		if s := drift(); !s.Drift || s.Acts != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A person who has found that only a copy of a key is in use acknowledges the key once: that key,
// with all its certificates, raises no more alerts. Another key of the former system still does,
// and the resolution of another drift changes nothing.
func TestAKnownCopyOfAFormerKeyHoldsNoMachine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		first := must(db.Certificates(ctx, n.ID))(t)[0].Serial
		clock.Advance(time.Minute)
		r := asksFor(db, n, first, "key-gpu-1")
		must(db.RecordRenewal(ctx, r))(t)
		_, _, rotated := rotates(t, db, clock, n, "key-other") // and never used
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		ok(t, db.CutOff(ctx, admin, turn(n, "r-1")))
		ok(t, db.Wiped(ctx, admin, turn(n, "r-1")))
		clock.Advance(2 * time.Minute)
		ok(t, db.PreviousSystem(ctx, n.ID, r.Cert.Serial, "10.0.0.9"))
		denied := must(db.DenyList(ctx, time.Time{}))(t)
		for _, serial := range []string{first, r.Cert.Serial, rotated.Serial} {
			if denied[serial] != store.DenyReleased {
				t.Fatalf("%s is denied for %q", serial, denied[serial])
			}
		}
		must(db.ResolveDrift(ctx, admin, n.ID, "a copy of its key: the disk is empty"))(t)
		denied = must(db.DenyList(ctx, time.Time{}))(t)
		if len(denied) != 3 || denied[first] == store.DenyReleased || denied[r.Cert.Serial] == store.DenyReleased || denied[rotated.Serial] != store.DenyReleased {
			t.Errorf("after a person's word denied are %v", denied)
		}
	})
}
