package reconcile_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

// Changes of the machine of a node in use, and the node's status after each where every rule acts.
func TestTheScenarios(t *testing.T) {
	for _, row := range []struct {
		name   string
		happen func(w *world, n broker.Node, systemID string)
		status broker.NodeStatus
		rule   string
	}{
		{"an admin releases the node in MAAS", func(w *world, _ broker.Node, id string) {
			w.admin(id, "release", nil)
			w.clock.Advance(10 * time.Minute)
		}, broker.Quarantined, "released"},
		{"an admin redeploys it", func(w *world, _ broker.Node, id string) { w.redeploys(id, time.Minute) }, broker.Quarantined, "redeployed"},
		{"an admin has redeployed it", func(w *world, _ broker.Node, id string) { w.redeploys(id, time.Hour) }, broker.Quarantined, "mark_changed"},
		{"its hardware fails", func(w *world, _ broker.Node, id string) {
			w.region.Inject(maassim.Fault{Kind: maassim.TestingFails, Machine: id})
			w.admin(id, "test", nil)
			w.clock.Advance(10 * time.Minute)
		}, broker.Quarantined, "hardware_failed"},
		{"it is powered off", func(w *world, _ broker.Node, id string) {
			w.ok(w.region.ByHand(maassim.PoweredOffByHand, id))
			w.clock.Advance(5 * time.Minute)
		}, broker.Active, "powered_off"},
		{"it is commissioned", func(w *world, _ broker.Node, id string) {
			w.admin(id, "release", nil)
			w.clock.Advance(10 * time.Minute)
			w.admin(id, "commission", nil)
		}, broker.Active, "recommissioned"},
		{"it is in rescue mode", func(w *world, _ broker.Node, id string) { w.admin(id, "rescue_mode", nil) }, broker.Active, "in_maintenance"},
		{"it was deleted from MAAS", func(w *world, _ broker.Node, id string) { w.ok(w.region.ByHand(maassim.DeletedByHand, id)) }, broker.Quarantined, "absent"},
		{"it was deleted and added again", func(w *world, _ broker.Node, id string) {
			w.ok(w.region.ByHand(maassim.DeletedByHand, id))
			w.region.Arrange(maassim.Arranged{Hostname: "gpu-n-0001", Hardware: maassim.Box(900), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
		}, broker.Quarantined, "absent"},
		{"somebody marks it for another node", func(w *world, _ broker.Node, id string) {
			w.admin(id, "set_workload_annotations", url.Values{"hostler-node": {"n-9999"}})
		}, broker.Quarantined, "mark_changed"},
		{"it is retired, and MAAS is not told", func(w *world, n broker.Node, _ string) {
			w.move(n.ID, broker.Draining, broker.OwnerOperator)
			w.move(n.ID, broker.Retired, broker.OwnerDrain)
		}, broker.Retired, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := onSQLite(t)
			w.acting()
			n, id := w.machine(true, broker.Active)
			other, _ := w.machine(true, broker.Active)
			w.heard(n.ID, other.ID)
			w.twice()
			w.is(n.ID, broker.Active, "")
			row.happen(w, n, id)
			w.heard(other.ID)
			if row.rule != "powered_off" {
				w.heard(n.ID)
			}
			before := w.clock.Now()
			w.clock.Advance(2 * time.Second)
			w.look()
			w.is(n.ID, w.now(n.ID).Status, "")
			if got := w.now(n.ID).Status; got == broker.Quarantined {
				t.Error("one observation was enough")
			}
			w.clock.Advance(31 * time.Second)
			w.look()
			w.is(n.ID, row.status, row.rule)
			w.is(other.ID, broker.Active, "")
			want := 0
			if row.rule != "" {
				want = 1
				if s := w.state(n.ID); s.FirstSeen.Before(before) || len(s.Details) == 0 {
					t.Errorf("the record says %+v", s)
				}
			}
			for range 3 {
				w.twice()
			}
			if got := w.alerts("node.drift.detected", row.rule); row.rule != "" && got != want {
				t.Errorf("%d alerts, want %d", got, want)
			}
			w.is(n.ID, row.status, row.rule)
		})
	}
}

func TestObserveTellsAndActsOnNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock)
		n, id := w.machine(true, broker.Active)
		w.ok(w.region.ByHand(maassim.ReadyByHand, id))
		for range 3 {
			w.heard(n.ID)
			w.twice()
		}
		w.is(n.ID, broker.Active, "released")
		if got := w.alerts("node.drift.detected", "released"); got != 1 {
			t.Errorf("%d alerts, want 1", got)
		}
		s := w.state(n.ID)
		if s.Severity != "critical" || !s.ActedAt.IsZero() || s.Status != "Ready" || s.SystemID != id || s.SiteID != w.site.ID {
			t.Errorf("%+v", s)
		}
		w.modes(reconcile.Act, "released")
		w.twice()
		w.is(n.ID, broker.Quarantined, "released")
		if got, said := w.now(n.ID).StatusReason, w.alerts("node.drift.detected", "released"); !strings.HasPrefix(got, "released:") || said != 1 {
			t.Errorf("the reason is %q after %d alerts", got, said)
		}
		// MAAS and node agree again: the drift ends, and the quarantine does not.
		w.admin2deployed(id)
		w.twice()
		w.is(n.ID, broker.Quarantined, "")
		if s := w.state(n.ID); s.ResolvedBy != "system" || s.ResolvedAt.IsZero() || s.Resolution == "" {
			t.Errorf("%+v", s)
		}
		rows, _, err := db.Drifts(t.Context(), store.DriftFilter{Resolved: true})
		w.ok(err)
		if len(rows) != 1 || rows[0].Hostname != "gpu-n-0001" || rows[0].Site != "dc1" {
			t.Errorf("%+v", rows)
		}
	})
}

// admin2deployed deploys a Ready machine and marks it as before.
func (w *world) admin2deployed(systemID string) {
	w.t.Helper()
	w.call("machines", "allocate", url.Values{"system_id": {systemID}})
	w.admin(systemID, "deploy", url.Values{"distro_series": {"noble"}})
	w.clock.Advance(time.Hour)
	w.admin(systemID, "set_workload_annotations", url.Values{"hostler-node": {"n-0001"}})
}

func TestTheTransitionIsTheReconcilersAndNoAllocationIsReleased(t *testing.T) {
	w := onSQLite(t)
	w.acting()
	n, id := w.machine(true, broker.Active)
	w.ok(w.region.ByHand(maassim.ReadyByHand, id))
	w.twice()
	rows, err := w.db.ListAudit(t.Context(), store.AuditFilter{Subject: "node/" + n.ID, Action: "node.transition", Newest: true, Limit: 1})
	w.ok(err)
	if len(rows) != 1 || rows[0].Actor != "system" || !strings.HasPrefix(rows[0].Reason, "released:") {
		t.Errorf("%+v", rows)
	}
	tasks, _, err := w.db.ListTasks(t.Context(), store.TaskFilter{Limit: 10})
	w.ok(err)
	if len(tasks) > 0 || len(w.runs.started) > 0 || len(w.agents.keys) > 0 {
		t.Errorf("something was started: %d tasks, %v, %v", len(tasks), w.runs.started, w.agents.keys)
	}
	if now := w.now(n.ID); now.TurnoverOwed {
		t.Error("a turnover is owed that nobody asked for")
	}
}

// A person activates the node while its machine still has the same drift.
func TestANodeLetInWithTheSameDriftIsQuarantinedAgain(t *testing.T) {
	w := onSQLite(t)
	w.acting()
	n, id := w.machine(true, broker.Active)
	w.ok(w.region.ByHand(maassim.ReadyByHand, id))
	w.twice()
	w.is(n.ID, broker.Quarantined, "released")
	w.move(n.ID, broker.Active, broker.OwnerOverride)
	w.twice()
	w.is(n.ID, broker.Quarantined, "released")
}

func TestAnOperatorResolvesAndTheSameDriftComesBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock)
		n, id := w.machine(true, broker.Active)
		w.ok(w.region.ByHand(maassim.ReadyByHand, id))
		w.twice()
		w.is(n.ID, broker.Active, "released")
		s, err := db.ResolveDrift(t.Context(), ada, n.ID, "I am on it")
		w.ok(err)
		if s.Drift || s.ResolvedBy != "ada" || s.Resolution != "I am on it" {
			t.Errorf("%+v", s)
		}
		w.is(n.ID, broker.Active, "")
		if _, err := db.ResolveDrift(t.Context(), ada, n.ID, "again"); err == nil || broker.AsError(err).Code != "drift_not_found" {
			t.Errorf("resolved twice: %v", err)
		}
		w.twice()
		w.is(n.ID, broker.Active, "released")
		if got := w.alerts("node.drift.detected", "released"); got != 2 {
			t.Errorf("%d alerts, want one each time", got)
		}
		if got := w.alerts("node.drift.resolved", "released"); got != 1 {
			t.Errorf("%d resolutions, want 1", got)
		}
	})
}

// A node held by a run, a turnover or a freeze is left alone, whatever MAAS reports.
func TestARunInProgressIsLeftAlone(t *testing.T) {
	for name, hold := range map[string]func(w *world, id string) (release func()){
		"a run": func(w *world, id string) func() {
			return w.run(id, "")
		},
		"an owed turnover": func(w *world, id string) func() {
			storetest.OweTurnover(w.t, w.db, id, true)
			return func() { storetest.OweTurnover(w.t, w.db, id, false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := onSQLite(t)
			w.acting()
			n, id := w.machine(true, broker.Active)
			w.twice()
			release := hold(w, n.ID)
			w.ok(w.region.ByHand(maassim.ReadyByHand, id))
			for range 4 {
				w.heard(n.ID)
				w.twice()
			}
			w.is(n.ID, broker.Active, "")
			if got := w.state(n.ID).Status; got != "Ready" {
				t.Errorf("it was not observed: %s", got)
			}
			looks, err := w.db.ReconcileLooks(t.Context(), nil)
			w.ok(err)
			if looks[0].Skipped != 1 {
				t.Errorf("%+v", looks[0])
			}
			release()
			w.twice()
			w.is(n.ID, broker.Quarantined, "released")
		})
	}
}

// An open drift of a node that a run takes stays unchanged until the run has ended.
func TestARunNeitherEndsNorRepeatsADrift(t *testing.T) {
	w := onSQLite(t)
	w.acting()
	n, id := w.machine(true, broker.Active)
	w.ok(w.region.ByHand(maassim.ReadyByHand, id))
	w.twice()
	end := w.run(n.ID, "")
	w.admin2deployed(id)
	w.twice()
	w.is(n.ID, broker.Quarantined, "released")
	end()
	w.twice()
	w.is(n.ID, broker.Quarantined, "")
}

func TestAFreezeHoldsActionsAndNotTheRecord(t *testing.T) {
	for _, site := range []string{"dc1", ""} {
		t.Run("of "+site, func(t *testing.T) {
			w := onSQLite(t)
			w.acting()
			n, id := w.machine(true, broker.Active)
			w.ok(w.region.ByHand(maassim.ReadyByHand, id))
			_, _, _, err := w.db.Freeze(t.Context(), ada, site, "leak")
			w.ok(err)
			for range 3 {
				w.twice()
			}
			w.is(n.ID, broker.Active, "released")
			_, _, err = w.db.Unfreeze(t.Context(), ada, site, "mended", false)
			w.ok(err)
			w.twice()
			w.is(n.ID, broker.Quarantined, "released")
		})
	}
}
