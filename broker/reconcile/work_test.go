package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// An adopted machine, without a mark, that comes back with another address.
func TestAChangedAddressIsTheNodes(t *testing.T) {
	for _, mode := range []reconcile.Mode{reconcile.Observe, reconcile.Act} {
		t.Run(string(mode), func(t *testing.T) {
			w := onSQLite(t)
			w.modes(mode, "readdressed")
			n, id := w.machine(false, broker.Active)
			other, _ := w.machine(false, broker.Active)
			w.heard(n.ID, other.ID)
			w.twice()
			was := w.state(n.ID).Host
			w.admin(id, "release", nil)
			w.clock.Advance(10 * time.Minute)
			w.machine(false, broker.Retired) // takes the address
			w.call("machines", "allocate", map[string][]string{"system_id": {id}})
			w.admin(id, "deploy", map[string][]string{"distro_series": {"noble"}})
			w.clock.Advance(time.Hour)
			w.heard(n.ID, other.ID)
			w.twice()
			s := w.state(n.ID)
			m, _ := w.region.Machine(id)
			if was == "" || slices.Contains(m.Addresses, was) {
				t.Fatalf("the address did not change: %s, %v", was, m.Addresses)
			}
			if mode == reconcile.Observe {
				w.is(n.ID, broker.Active, "readdressed")
				if s.Host != was {
					t.Errorf("the node's address became %s", s.Host)
				}
				return
			}
			w.is(n.ID, broker.Active, "")
			if !slices.Contains(m.Addresses, s.Host) || s.Acts != 1 || s.ResolvedBy != "system" {
				t.Errorf("%+v, and the machine has %v", s, m.Addresses)
			}
			if a, b := w.alerts("node.drift.detected", "readdressed"), w.alerts("node.drift.resolved", "readdressed"); a != 1 || b != 1 {
				t.Errorf("detected %d times, resolved %d", a, b)
			}
			w.twice()
			w.is(n.ID, broker.Active, "")
		})
	}
}

// Hardware sync that stops is reseeded once, and again only after the back-off.
func TestStaleHardwareSyncIsReseededWithBackOff(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "hw_sync_stale")
	w.region.Inject(maassim.Fault{Kind: maassim.SyncStops, Machine: "gpu-n-0001"})
	n, _ := w.machine(true, broker.Active)
	other, _ := w.machine(true, broker.Active)
	pass := func(d time.Duration) {
		for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
			w.clock.Advance(5 * time.Minute)
			w.heard(n.ID, other.ID)
			w.look()
		}
	}
	pass(20 * time.Minute)
	w.is(n.ID, broker.Active, "")
	pass(40 * time.Minute)
	w.is(n.ID, broker.Active, "hw_sync_stale")
	if len(w.agents.keys) != 1 || w.state(n.ID).Work != "t-1" {
		t.Fatalf("reseeded by %v, work %q", w.agents.keys, w.state(n.ID).Work)
	}
	pass(30 * time.Minute)
	if len(w.agents.keys) != 1 {
		t.Errorf("reseeded again too early: %v", w.agents.keys)
	}
	pass(24 * time.Hour)
	if got := len(w.agents.keys); got < 4 || got > 6 { // after 1, 2, 4, 8 hours
		t.Errorf("reseeded %d times in a day: %v", got, w.agents.keys)
	}
	w.is(other.ID, broker.Active, "")
	if got := w.alerts("node.drift.detected", "hw_sync_stale"); got != 1 {
		t.Errorf("%d alerts, want 1", got)
	}
}

// A run that takes the node between the look at MAAS and the reseed keeps the node.
func TestANodeThatARunTakesMeanwhileIsNotReseeded(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "hw_sync_stale")
	w.region.Inject(maassim.Fault{Kind: maassim.SyncStops, Machine: "gpu-n-0001"})
	n, systemID := w.machine(true, broker.Active)
	pass := func(d time.Duration) {
		for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
			w.clock.Advance(5 * time.Minute)
			w.heard(n.ID)
			w.look()
		}
	}
	pass(time.Hour)
	if len(w.agents.keys) != 1 {
		t.Fatalf("reseeded by %v", w.agents.keys)
	}
	taken := false
	w.guard = func(req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Path, systemID) && !taken {
			taken = true
			w.run(n.ID, "")
		}
		return nil, nil
	}
	pass(90 * time.Minute)
	if len(w.agents.keys) != 1 || !taken {
		t.Errorf("reseeded by %v, taken %v", w.agents.keys, taken)
	}
}

// A run's change of its machine is intended: the recorded address follows.
func TestARunsNewAddressIsNoDrift(t *testing.T) {
	w := onSQLite(t)
	n, id := w.machine(false, broker.Active)
	w.twice()
	was := w.state(n.ID).Host
	end := w.run(n.ID, "")
	w.admin(id, "release", nil)
	w.clock.Advance(10 * time.Minute)
	w.machine(false, broker.Retired) // takes the address
	w.call("machines", "allocate", map[string][]string{"system_id": {id}})
	w.admin(id, "deploy", map[string][]string{"distro_series": {"noble"}})
	w.clock.Advance(time.Hour)
	w.twice()
	end()
	w.heard(n.ID)
	w.twice()
	w.is(n.ID, broker.Active, "")
	if got := w.state(n.ID).Host; got == was || got == "" {
		t.Errorf("the node's address is %s, and was %s", got, was)
	}
}

// A machine that reports and falls silent in turns is not reseeded each time.
func TestBackOffOutlivesARecovery(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "hw_sync_stale")
	w.region.Inject(maassim.Fault{Kind: maassim.SyncStops, Machine: "gpu-n-0001"})
	n, _ := w.machine(true, broker.Active)
	pass := func(d time.Duration) {
		for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
			w.clock.Advance(5 * time.Minute)
			w.heard(n.ID)
			w.look()
		}
	}
	pass(time.Hour)
	if len(w.agents.keys) != 1 {
		t.Fatalf("reseeded %d times", len(w.agents.keys))
	}
	w.ok(w.db.HealDrift(t.Context(), broker.Actor{Name: "system"}, n.ID, "hw_sync_stale", "test"))
	pass(20 * time.Minute)
	w.is(n.ID, broker.Active, "hw_sync_stale")
	if len(w.agents.keys) != 1 || w.state(n.ID).Acts != 1 {
		t.Errorf("reseeded %d times within the back-off", len(w.agents.keys))
	}
}

// While MAAS could not be read, no change of last_sync could be seen.
func TestAnOutageMakesNoHardwareSyncStale(t *testing.T) {
	w, nodes, _ := fleet(t, 3)
	w.guard, w.blind = func(*http.Request) (*http.Response, error) { return nil, errAway }, true
	for range 4 {
		w.clock.Advance(time.Hour)
		w.look()
	}
	w.guard, w.blind = nil, false
	w.hear(nodes)
	w.twice()
	w.same(nodes)
}

// Seed 000 keeps nodes deployed while they are paused.
func TestTwentyNodesRetiredForAPauseStayAsTheyAre(t *testing.T) {
	for _, mode := range []reconcile.Mode{"", reconcile.Observe} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			w := onSQLite(t)
			w.acting()
			if mode != "" {
				w.modes(mode, "retired_deployed")
			}
			var nodes []broker.Node
			for range 20 {
				n, _ := w.machine(true, broker.Retired)
				nodes = append(nodes, n)
			}
			for range 40 {
				w.clock.Advance(23 * time.Hour)
				w.twice()
			}
			for _, n := range nodes {
				if got := w.now(n.ID); got.Status != broker.Retired || got.UpdatedAt != n.UpdatedAt {
					t.Errorf("node %s is %s", n.ID, got.Status)
				}
			}
			if len(w.runs.started) > 0 {
				t.Errorf("decommissions were started: %v", w.runs.started)
			}
		})
	}
}

// With the rule on: after the grace, a limited number at once, within the share, once each.
func TestRetiredNodesAreDecommissionedOneAfterTheOther(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "retired_deployed")
	var nodes []broker.Node
	for range 3 {
		n, _ := w.machine(true, broker.Retired)
		nodes = append(nodes, n)
	}
	kept := nodes[0]
	w.twice()
	for _, n := range nodes {
		w.is(n.ID, broker.Retired, "retired_deployed")
	}
	plan, _, err := w.watch.Plan(t.Context(), w.site)
	w.ok(err)
	for _, p := range plan {
		if p.ID != "retired_deployed" || !p.Acts || p.After.Before(w.clock.Now().Add(23*time.Hour)) {
			t.Errorf("planned: %+v", p)
		}
	}
	if len(plan) != 3 {
		t.Errorf("%d are planned", len(plan))
	}
	_, err = w.db.ResolveDrift(t.Context(), ada, kept.ID, "paused until spring")
	w.ok(err)
	w.clock.Advance(20 * time.Hour)
	w.twice()
	if len(w.runs.started) > 0 {
		t.Fatalf("started within the grace: %v", w.runs.started)
	}
	_, _, _, err = w.db.Freeze(t.Context(), ada, "dc1", "not now")
	w.ok(err)
	w.clock.Advance(5 * time.Hour)
	for range 3 {
		w.twice()
	}
	if len(w.runs.started) > 0 {
		t.Fatalf("started while frozen: %v", w.runs.started)
	}
	_, _, err = w.db.Unfreeze(t.Context(), ada, "dc1", "now", false)
	w.ok(err)
	w.twice()
	if len(w.runs.started) != 1 {
		t.Fatalf("%v started, want one", w.runs.started)
	}
	end := w.run(w.runs.started[0], w.runs.ids[0])
	w.twice()
	w.twice()
	if len(w.runs.started) != 1 {
		t.Fatalf("%v started beside one that runs", w.runs.started)
	}
	end() // somebody cancels the run
	w.twice()
	w.twice()
	if len(w.runs.started) != 2 || w.runs.started[0] == w.runs.started[1] {
		t.Fatalf("%v started, want each once", w.runs.started)
	}
	for range 10 {
		w.clock.Advance(24 * time.Hour)
		w.twice()
	}
	if len(w.runs.started) != 2 || slices.Contains(w.runs.started, kept.ID) {
		t.Errorf("%v started; %s was to stay, and none comes twice", w.runs.started, kept.ID)
	}
	w.is(kept.ID, broker.Retired, "")
	// The node was used meanwhile: the earlier resolution no longer counts.
	w.move(kept.ID, broker.Active, broker.OwnerTurnover)
	w.heard(kept.ID)
	w.twice()
	w.move(kept.ID, broker.Draining, broker.OwnerOperator)
	w.move(kept.ID, broker.Retired, broker.OwnerDrain)
	w.twice()
	w.is(kept.ID, broker.Retired, "retired_deployed")
}

func TestADecommissionThatCannotStartIsTriedAgain(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "retired_deployed")
	n, _ := w.machine(true, broker.Retired)
	w.twice()
	w.clock.Advance(25 * time.Hour)
	w.runs.fails = errors.New("no")
	w.twice()
	if s := w.state(n.ID); s.Acts != 0 {
		t.Errorf("%+v", s)
	}
	w.runs.fails = nil
	w.twice()
	if s := w.state(n.ID); s.Acts != 1 || s.Work != w.runs.ids[0] {
		t.Errorf("%+v", s)
	}
}

// The broker dies between the start of a run and its note: the run is recognised by its id, no
// second run is begun beside it, and it is not begun again after a cancel.
func TestADecommissionWhoseAnswerWasLostIsNotBegunTwice(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "retired_deployed")
	for range 2 {
		w.machine(true, broker.Retired)
	}
	w.twice()
	w.clock.Advance(25 * time.Hour)
	w.runs.lost = errors.New("killed")
	w.twice()
	if len(w.runs.started) != 1 {
		t.Fatalf("%v started, want one", w.runs.started)
	}
	end := w.run(w.runs.started[0], w.runs.ids[0])
	w.runs.lost = nil
	w.boot()
	for range 3 {
		w.twice()
	}
	if len(w.runs.started) != 1 {
		t.Fatalf("%v started beside one that runs", w.runs.started)
	}
	end()
	for range 3 {
		w.clock.Advance(24 * time.Hour)
		w.twice()
	}
	if len(w.runs.started) != 2 || w.runs.started[0] == w.runs.started[1] {
		t.Fatalf("%v started, want each once", w.runs.started)
	}
}

// A pause ends sessions, and keeps users: a node with a tenant is reported, and no run is begun for
// it until the tenant is gone.
func TestANodeThatATenantIsOnIsNotDecommissioned(t *testing.T) {
	w := onSQLite(t)
	w.modes(reconcile.Act, "retired_deployed")
	n, _ := w.machine(true, broker.Active)
	_, _, err := w.db.InsertTask(t.Context(), ada, broker.Task{
		ID: "t-in", NodeID: n.ID, NodeEpoch: n.Epoch, Type: "allocation.provision_user", Version: 1, Class: taskcatalog.ClassMutating, Lane: taskcatalog.LaneExclusive,
		Params: []byte(`{"allocation_id":"a-1","username":"u","ssh_keys":["k"],"tenant":"acme"}`), NotAfter: w.clock.Now().Add(time.Hour), Envelope: []byte("e"), EnvelopeDigest: "sha256:e", Nonce: "n",
	})
	w.ok(err)
	w.move(n.ID, broker.Draining, broker.OwnerOperator)
	w.move(n.ID, broker.Retired, broker.OwnerDrain)
	for range 3 {
		w.clock.Advance(25 * time.Hour)
		w.twice()
	}
	w.is(n.ID, broker.Retired, "retired_deployed")
	if len(w.runs.started) > 0 {
		t.Fatalf("%v started", w.runs.started)
	}
	if plan, _, err := w.watch.Plan(t.Context(), w.site); err != nil || len(plan) != 1 || plan[0].Acts {
		t.Errorf("planned %+v, %v", plan, err)
	}
	_, err = w.db.CancelTask(t.Context(), ada, "t-in", "it never came")
	w.ok(err)
	w.twice()
	if len(w.runs.started) != 1 {
		t.Errorf("%v started, want it", w.runs.started)
	}
}

func TestMachinesOfNobodyAreCountedAndLeftAlone(t *testing.T) {
	w, nodes, _ := fleet(t, 2)
	for i := range 7 {
		w.region.Arrange(maassim.Arranged{Hostname: fmt.Sprint("other-", i), Hardware: maassim.Box(500 + i), Status: maassim.Status(i), Owner: "cloud-team"})
	}
	w.hear(nodes)
	w.twice()
	looks, err := w.db.ReconcileLooks(t.Context(), nil)
	w.ok(err)
	if looks[0].Unmanaged != 7 || looks[0].Machines != 9 || looks[0].Nodes != 2 {
		t.Errorf("%+v", looks[0])
	}
	w.same(nodes)
}

// A round without changes writes the site's row and nothing else.
func TestNothingIsWrittenOfWhatDidNotChange(t *testing.T) {
	w, nodes, ids := fleet(t, 10)
	before := map[string]store.MAASState{}
	for _, n := range nodes {
		before[n.ID] = w.state(n.ID)
	}
	audit := w.alerts("", "")
	for range 5 {
		w.hear(nodes)
		w.twice()
	}
	for _, n := range nodes {
		if got := w.state(n.ID); got.ReconciledAt != before[n.ID].ReconciledAt {
			t.Errorf("the record of %s was written anew", n.ID)
		}
	}
	if got := w.alerts("", ""); got != audit {
		t.Errorf("%d audit rows were written", got-audit)
	}
	w.ok(w.region.ByHand(maassim.PoweredOffByHand, ids[3]))
	w.hear(nodes)
	w.twice()
	for i, n := range nodes {
		if got := w.state(n.ID); (got.ReconciledAt != before[n.ID].ReconciledAt) != (i == 3) {
			t.Errorf("node %d: written %v", i, got.ReconciledAt != before[n.ID].ReconciledAt)
		}
	}
}

func TestANodeThatIsDeletedHasNoDrift(t *testing.T) {
	w := onSQLite(t)
	n, id := w.machine(true, broker.Retired)
	w.ok(w.region.ByHand(maassim.ReadyByHand, id))
	w.twice()
	w.is(n.ID, broker.Retired, "retired_taken")
	w.move(n.ID, broker.Removing, broker.OwnerRemoval)
	w.move(n.ID, broker.Deleted, broker.OwnerRemoval)
	w.machine(true, broker.Active)
	w.twice()
	if w.state(n.ID).Drift {
		t.Error("the drift of a deleted node is open")
	}
	rows, _, err := w.db.Drifts(t.Context(), store.DriftFilter{})
	w.ok(err)
	if len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

func TestEventsSayWhatWasFound(t *testing.T) {
	w, nodes, ids := fleet(t, 1)
	w.ok(w.region.ByHand(maassim.ReadyByHand, ids[0]))
	w.hear(nodes)
	w.twice()
	_, err := w.db.ResolveDrift(t.Context(), ada, nodes[0].ID, "mine")
	w.ok(err)
	_, err = w.db.PlaceEvents(t.Context(), 1000)
	w.ok(err)
	page, _, err := w.db.Outbox(t.Context(), store.OutboxFilter{Types: []string{"node.drift.detected", "node.drift.resolved"}})
	w.ok(err)
	if len(page) != 2 || page[0].Type != "node.drift.detected" || page[1].Type != "node.drift.resolved" || page[0].Site != "dc1" || page[0].Subject != "node/"+nodes[0].ID {
		t.Fatalf("%+v", page)
	}
	var data struct{ Rule, Alert, Severity, By string }
	w.ok(json.Unmarshal(page[0].Data, &data))
	if data.Rule != "released" || data.Alert != "critical" || data.Severity != "critical" || data.By != "system" {
		t.Errorf("%+v", data)
	}
	w.ok(json.Unmarshal(page[1].Data, &data))
	if data.By != "ada" {
		t.Errorf("%+v", data)
	}
}
