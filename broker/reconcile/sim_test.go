//go:build !race

package reconcile_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

var (
	simSeeds = flag.Int("sim.n", 40, "how many seeds the simulation plays")
	simSeed  = flag.Int64("sim.seed", -1, "play this seed alone")
)

// TestSimulation plays a site where MAAS, people who act by hand, operators, runs and nodes act at
// random between the reconciler's looks. Everything follows from the seed. After each look the test
// checks that each change of the reconciler was necessary and permitted.
func TestSimulation(t *testing.T) {
	first, n := int64(0), int64(*simSeeds)
	if *simSeed >= 0 {
		first, n = *simSeed, 1
	} else if testing.Short() {
		n = min(n, 10)
	}
	quarantined, healed, stopped := 0, 0, 0
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSimulation(t, uint64(seed))
			for range 70 {
				s.happen()
				s.check()
			}
			quarantined += s.quarantined
			healed += s.alerts("node.drift.resolved", "")
			stopped += s.alerts("site.reconciliation.stopped", "")
		})
	}
	t.Logf("%d quarantined, %d drifts ended, %d times stopped", quarantined, healed, stopped)
	if n >= 30 && (quarantined == 0 || healed == 0 || stopped == 0) {
		t.Error("the simulation does not reach everything")
	}
}

type simulation struct {
	*world
	rand        *rand.Rand
	ids         map[string]string // machine of each node
	nodes       []string
	strangers   map[string]maassim.Machine
	ends        map[string]func() // runs under way
	frozen      bool
	garbled     bool // MAAS's list is wrong
	quarantined int
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{world: onSQLite(t), rand: rand.New(rand.NewPCG(seed, 1)), ids: map[string]string{}, ends: map[string]func(){}, strangers: map[string]maassim.Machine{}}
	s.blind = true // the test itself knows whether MAAS can be read
	s.acting()
	s.modes(reconcile.Act, "retired_deployed")
	for range 6 + s.rand.IntN(10) {
		n, id := s.machine(s.rand.IntN(4) > 0, broker.Active)
		s.nodes, s.ids[n.ID] = append(s.nodes, n.ID), id
	}
	for i := range 3 {
		id := s.region.Arrange(maassim.Arranged{Hostname: fmt.Sprint("other-", i), Hardware: maassim.Box(700 + i), Status: maassim.Deployed, Owner: "cloud-team", PowerOn: true})
		m, _ := s.region.Machine(id)
		s.strangers[id] = m
	}
	return s
}

// happen performs one random act, and advances the clock.
func (s *simulation) happen() {
	id := s.nodes[s.rand.IntN(len(s.nodes))]
	node, systemID := s.now(id), s.ids[id]
	m, there := s.region.Machine(systemID)
	move := func(to broker.NodeStatus, by broker.Owner) {
		_, err := s.db.Transition(s.t.Context(), ada, id, store.Change{To: to, By: by, Reason: "test"})
		if err != nil && broker.AsError(err).Kind != broker.Refused {
			s.t.Fatal(err)
		}
	}
	switch s.rand.IntN(24) {
	case 0:
		if there {
			s.ok(s.region.ByHand(maassim.ReadyByHand, systemID))
		}
	case 1:
		if s.rand.IntN(3) == 0 && there {
			s.ok(s.region.ByHand(maassim.DeletedByHand, systemID))
		}
	case 2:
		if there && m.Status == maassim.Deployed {
			s.admin(systemID, "mark_broken", nil)
		}
	case 3:
		if there && m.Status == maassim.Ready {
			s.call("machines", "allocate", map[string][]string{"system_id": {systemID}})
			s.admin(systemID, "deploy", map[string][]string{"distro_series": {"noble"}})
		}
	case 4:
		if there {
			s.ok(s.region.ByHand([]maassim.Kind{maassim.PoweredOffByHand, maassim.PoweredOnByHand}[s.rand.IntN(2)], systemID))
		}
	case 5:
		if there && m.Status == maassim.Deployed {
			s.admin(systemID, "set_workload_annotations", map[string][]string{"hostler-node": {s.nodes[s.rand.IntN(len(s.nodes))]}})
		}
	case 6, 7:
		s.guard, s.garbled = nil, false
		switch s.rand.IntN(4) {
		case 0:
			s.guard, s.garbled = func(*http.Request) (*http.Response, error) { return nil, errAway }, true
		case 1:
			s.guard, s.garbled = answering(http.StatusInternalServerError, "odd"), true
		case 2:
			s.lists(func(all []json.RawMessage) []json.RawMessage { return all[:len(all)/2] })
		}
	case 8:
		move(broker.Active, broker.OwnerOverride)
	case 9:
		move(broker.Offline, broker.OwnerHeartbeat)
	case 10:
		move(broker.Active, broker.OwnerHeartbeat)
	case 11:
		move(broker.Draining, broker.OwnerOperator)
	case 12:
		move(broker.Retired, broker.OwnerDrain)
	case 13:
		if s.ends[id] == nil {
			s.ends[id] = s.run(id, "")
		}
	case 14, 15:
		if end := s.ends[id]; end != nil && !s.frozen { // a freeze keeps runs where they are
			end()
			delete(s.ends, id)
		}
	case 16:
		if s.frozen = !s.frozen; s.frozen {
			_, _, _, err := s.db.Freeze(s.t.Context(), ada, "dc1", "test")
			s.ok(err)
		} else {
			_, _, err := s.db.Unfreeze(s.t.Context(), ada, "dc1", "test", false)
			s.ok(err)
		}
	case 17:
		if s.state(id).Drift {
			_, err := s.db.ResolveDrift(s.t.Context(), ada, id, "test")
			s.ok(err)
		}
	case 18:
		storetest.OweTurnover(s.t, s.db, id, !node.TurnoverOwed)
	case 19:
		s.boot()
	case 20:
		r := reconcile.Rules[s.rand.IntN(len(reconcile.Rules)-1)]
		s.modes(reconcile.Modes[s.rand.IntN(3)], r.ID)
	default:
		s.heard(s.nodes...)
	}
	s.clock.Advance(time.Duration(2+s.rand.IntN(90)) * time.Second)
	if s.rand.IntN(8) == 0 {
		s.clock.Advance(time.Hour)
	}
}

// check looks once, and compares the result with the true state.
func (s *simulation) check() {
	s.t.Helper()
	before := map[string]broker.Node{}
	for _, id := range s.nodes {
		before[id] = s.now(id)
	}
	raw, err := s.db.ReconcilePolicy(s.t.Context(), "dc1")
	s.ok(err)
	policy, err := reconcile.PolicyOf(raw)
	s.ok(err)
	s.look()
	changed := 0
	for _, id := range s.nodes {
		was, is := before[id], s.now(id)
		if was.Status == is.Status {
			continue
		}
		changed++
		if is.Status != broker.Quarantined {
			s.t.Fatalf("node %s went from %s to %s", id, was.Status, is.Status)
		}
		if err := broker.Transition(was, is.Status, broker.OwnerReconciler); err != nil {
			s.t.Fatal(err)
		}
		m, there := s.region.Machine(s.ids[id])
		mark := m.Annotations["hostler-node"]
		rule := s.state(id).Rule
		switch {
		case s.ends[id] != nil || was.TurnoverOwed || s.frozen || s.garbled:
			s.t.Fatalf("node %s was quarantined for %s: a run has it %v, a turnover is owed %v, frozen %v, MAAS cannot be read %v", id, rule, s.ends[id] != nil, was.TurnoverOwed, s.frozen, s.garbled)
		case policy.Mode(rule) != reconcile.Act:
			s.t.Fatalf("node %s was quarantined for %s, which is to %s", id, rule, policy.Mode(rule))
		case there && m.Status == maassim.Deployed && mark == id:
			s.t.Fatalf("node %s was quarantined for %s, and its machine is as it should be", id, rule)
		}
	}
	if policy.TooMany(changed, len(s.nodes)) {
		s.t.Fatalf("%d of %d nodes changed at once", changed, len(s.nodes))
	}
	s.quarantined += changed
	for id, was := range s.strangers {
		if is, there := s.region.Machine(id); !there || is.Status != was.Status || is.Owner != was.Owner || is.On != was.On || is.Boots != was.Boots {
			s.t.Fatalf("the machine %s, which is no node's, changed: %+v", id, is)
		}
	}
	rows, _, err := s.db.Drifts(s.t.Context(), store.DriftFilter{})
	s.ok(err)
	for _, d := range rows {
		if r, known := reconcile.RuleOf(d.Rule); !known || string(r.Severity) != d.Severity {
			s.t.Fatalf("a drift without a rule: %+v", d)
		}
	}
}
