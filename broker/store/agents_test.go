package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAPackageIsOfItsVersion(t *testing.T) {
	for _, row := range []struct {
		agent, pkg string
		same       bool
	}{
		{"0.1.0", "0.1.0", true},
		{"0.1.0", "0.1.0-2", true},
		{"0.1.0", "0.1.0-rc1", false},
		{"0.0.0-dev", "0.0.0-dev", true},
		{"", "-1", false},
		{"0.1.0-rc.1", "0.1.0~rc.1-1", true},
		{"0.1.0", "0.1.1", false},
	} {
		if got := (store.Package{Version: row.pkg}).OfVersion(row.agent); got != row.same {
			t.Errorf("agent %s and package %s: same is %v", row.agent, row.pkg, got)
		}
	}
}

func report(version string, b *taskcatalog.AgentBuild, digest string) store.NodeReport {
	return store.NodeReport{AgentVersion: version, Digest: digest, Agent: b}
}

func TestWhatANodeSaysOfItsProgram(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "h1")
		if a := must(db.Agent(ctx, n.ID))(t); a.Channel != broker.ChannelStable || a.Mode != broker.ByRebootstrap || a.Commit != "" {
			t.Fatalf("of whom nothing is known: %+v", a)
		}
		clock.Advance(time.Minute)
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.4.0", &taskcatalog.AgentBuild{Commit: "abc", SHA256: "11", Delivery: &taskcatalog.AgentDelivery{
			ID: "by-hand-1", Outcome: taskcatalog.UpdateRolledBack, Reason: "no_ready", At: clock.Now().Add(time.Hour), SwitchSeconds: 6.2,
		}}, "sha256:1")))
		a := must(db.Agent(ctx, n.ID))(t)
		if a.Commit != "abc" || a.SHA256 != "11" || !a.ReportedAt.Equal(clock.Now()) || a.Result != "rolled_back" || a.Reason != "no_ready" || a.Seconds != 7 || a.CorrelationID != "by-hand-1" {
			t.Errorf("reported %+v", a)
		}
		if a.AttemptAt.After(clock.Now()) {
			t.Errorf("a node's clock says when it was: %v", a.AttemptAt)
		}
		// The same report again is no new delivery.
		clock.Advance(time.Minute)
		ok(t, db.Deliver(ctx, store.Delivery{NodeID: n.ID, CorrelationID: "r-1", At: clock.Now(), Result: "running"}))
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.4.0", &taskcatalog.AgentBuild{Commit: "abc", SHA256: "11", Delivery: &taskcatalog.AgentDelivery{
			ID: "by-hand-1", Outcome: taskcatalog.UpdateRolledBack, At: clock.Now().Add(-time.Hour),
		}}, "sha256:2")))
		if a := must(db.Agent(ctx, n.ID))(t); a.Result != "running" || a.CorrelationID != "r-1" {
			t.Errorf("an old word took the place of a new one: %+v", a)
		}
		// An older agent reports no build: the known build belongs to another program.
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.0.0", nil, "sha256:3")))
		if a := must(db.Agent(ctx, n.ID))(t); a.Commit != "" || a.SHA256 != "" {
			t.Errorf("an older agent has a build: %+v", a)
		}
	})
}

// A node may roll back a confirmed version, and its report is accepted.
func TestAVersionThatIsPutBackAfterItWasConfirmedIsToldAsThat(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "h1")
		said := func(id string, outcome taskcatalog.UpdateOutcome, digest string) broker.Agent {
			t.Helper()
			clock.Advance(time.Minute)
			ok(t, store.SaveReport(ctx, db, n.ID, report("1.4.0", &taskcatalog.AgentBuild{Delivery: &taskcatalog.AgentDelivery{ID: id, Outcome: outcome, At: clock.Now().Add(-time.Hour)}}, digest)))
			return must(db.Agent(ctx, n.ID))(t)
		}
		clock.Advance(2 * time.Hour)
		said("t-1", taskcatalog.UpdateConfirmed, "sha256:1")
		if a := said("t-1", taskcatalog.UpdateRolledBack, "sha256:2"); a.Result != "rolled_back" || a.CorrelationID != "t-1" || !a.AttemptAt.Equal(clock.Now()) {
			t.Errorf("%+v", a)
		}
		if a := said("t-1", taskcatalog.UpdateConfirmed, "sha256:3"); a.Result != "rolled_back" {
			t.Errorf("what was before it took its place: %+v", a)
		}
	})
}

func TestADeliveryThatBeganBeforeTheLastOneChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "h1")
		first := clock.Now()
		clock.Advance(time.Minute)
		second := store.Delivery{NodeID: n.ID, CorrelationID: "r-2", At: clock.Now(), Result: "confirmed", Seconds: 3}
		ok(t, db.Deliver(ctx, second))
		ok(t, db.Deliver(ctx, store.Delivery{NodeID: n.ID, CorrelationID: "r-1", At: first, Result: "failed"}))
		if a := must(db.Agent(ctx, n.ID))(t); a.CorrelationID != "r-2" || a.Result != "confirmed" {
			t.Errorf("it is %+v", a)
		}
		all := must(db.Agents(ctx))(t)
		if len(all) != 1 || all[n.ID].CorrelationID != "r-2" {
			t.Errorf("all are %+v", all)
		}
	})
}

func TestWhatIsWantedOfAnAgentIsAudited(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "h1")
		for range 2 { // the second call changes nothing
			a := must(db.WantAgent(ctx, admin, n.ID, broker.ChannelPinned, "1.2.0", broker.ByManualInstall, "a fault"))(t)
			if a.Channel != broker.ChannelPinned || a.Pinned != "1.2.0" || a.Mode != broker.ByManualInstall {
				t.Fatalf("wanted %+v", a)
			}
		}
		if got := audited(t, db, "agent.want", ""); got != 1 {
			t.Errorf("%d audit rows", got)
		}
		_, err := db.WantAgent(ctx, admin, "n-none", broker.ChannelStable, "", broker.ByReimage, "")
		refused(t, err, "node_not_found")
	})
}

func TestANodeIsAskedForItsReportOnceMore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "h1")
		was := must(db.RenewedAt(ctx, n.ID))(t)
		if was.IsZero() || was.After(clock.Now()) {
			t.Errorf("its certificate is of %v", was)
		}
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.4.0", nil, "sha256:1")))
		ok(t, db.AskReport(ctx, n.ID))
		if got := must(db.Node(ctx, n.ID))(t); got.ReportDigest != "" {
			t.Errorf("its report is still known: %q", got.ReportDigest)
		}
	})
}

func TestWhatANodeSkipsIsKeptAsItSaysIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := member(t, db, "h1")
		pin := taskcatalog.AgentPin{Version: "1.4.0", Reason: "crash_loop"}
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.3.0", &taskcatalog.AgentBuild{Previous: "1.2.0", Pins: []taskcatalog.AgentPin{pin}}, "sha256:1")))
		if a := must(db.Agent(ctx, n.ID))(t); a.Previous != "1.2.0" || len(a.Pins) != 1 || a.Pins[0] != pin {
			t.Errorf("it is %+v", a)
		}
		ok(t, store.SaveReport(ctx, db, n.ID, report("1.3.0", &taskcatalog.AgentBuild{}, "sha256:2")))
		if a := must(db.Agent(ctx, n.ID))(t); a.Previous != "" || len(a.Pins) != 0 {
			t.Errorf("of a node that skips nothing any more it is %+v", a)
		}
	})
}
