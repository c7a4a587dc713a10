package records

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
)

// A node that was made ready is judged again when its run goes on after a stop, whatever the operator ordered.
func TestANodeThatIsLostWhileItsRunWaitsIsGivenToNobody(t *testing.T) {
	by := func(to broker.NodeStatus) func(*site) {
		return func(s *site) {
			_, err := s.db.Transition(s.Context(), ada, "n-0", store.Change{To: to, By: broker.OwnerOperator, Reason: "by hand"})
			s.ok(err)
		}
	}
	drift := func(quarantine bool) func(*site) {
		return func(s *site) {
			n, err := s.db.Node(s.Context(), "n-0")
			s.ok(err)
			recorded, err := s.db.RecordDrift(s.Context(), broker.System, store.Drift{
				Node: n, Seen: store.MAASState{NodeID: n.ID, Status: "Ready"}, Rule: "released", Severity: "critical", Level: "critical",
				Text: "released", Details: []byte("{}"), FirstSeen: s.db.Now(), Quarantine: quarantine,
			})
			if s.ok(err); !recorded {
				s.Fatal("the drift is not recorded")
			}
		}
	}
	for name, c := range map[string]struct {
		loses  func(*site)
		action chain.Action
		want   broker.AllocationStatus
	}{
		"nothing happens":                      {func(*site) {}, chain.Resume, broker.AllocationActive},
		"an operator quarantines it":           {by(broker.Quarantined), chain.Resume, broker.AllocationFailed},
		"an operator drains it":                {by(broker.Draining), chain.RetryStage, broker.AllocationFailed},
		"MAAS releases it":                     {drift(true), chain.Rerun, broker.AllocationFailed},
		"MAAS releases it, and nobody may act": {drift(false), chain.Adopt, broker.AllocationFailed},
		"it was quarantined, and is back again": {func(s *site) {
			by(broker.Quarantined)(s)
			by(broker.Active)(s)
		}, chain.Resume, broker.AllocationActive},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, 2, func(s *site) {
				s.ask("a-1", 2)
				other := s.nodes["n-1"]
				delete(s.nodes, "n-1") // its task waits
				s.settleFor(time.Minute)
				all, err := s.db.Runs(s.Context(), chain.Filter{Kind: broker.ProvisionKind})
				s.ok(err)
				s.orders(all[0].ID, chain.MarkManual)
				s.settleFor(time.Minute)
				c.loses(s)
				s.nodes["n-1"] = other
				s.settleFor(10 * time.Second)
				s.orders(all[0].ID, c.action)
				s.settle()
				code := ""
				if c.want == broker.AllocationFailed {
					code = "node_not_ready"
				}
				s.stands("a-1", c.want, code)
			})
		})
	}
}

// orders is an operator's action on a run.
func (s *site) orders(runID string, a chain.Action) {
	s.Helper()
	_, err := s.engine.Act(s.Context(), chain.Order{ID: runID, Actor: chain.Actor{Name: "ada"}, Action: a, Reason: "because"})
	s.ok(err)
}

// A node that is offline at the end of the provisioning is waited for, and for so long as for a task.
func TestAnOfflineNodeIsWaitedForBeforeItsTenantGetsIt(t *testing.T) {
	for name, c := range map[string]struct {
		away time.Duration
		want broker.AllocationStatus
		code string
	}{
		"it comes back":   {2 * time.Minute, broker.AllocationActive, ""},
		"it stays silent": {time.Hour, broker.AllocationFailed, "node_not_ready"},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, 2, func(s *site) {
				is := func(to broker.NodeStatus) {
					_, err := s.db.Transition(s.Context(), broker.System, "n-0", store.Change{To: to, By: broker.OwnerHeartbeat, Reason: "test"})
					s.ok(err)
				}
				s.ask("a-1", 2)
				other := s.nodes["n-1"]
				delete(s.nodes, "n-1")
				s.settleFor(time.Minute)
				is(broker.Offline)
				s.nodes["n-1"] = other
				s.settleFor(min(c.away, 3*time.Minute))
				s.stands("a-1", broker.AllocationProvisioning, "")
				if c.away < time.Hour {
					is(broker.Active)
				}
				s.settle()
				s.stands("a-1", c.want, c.code)
			})
		})
	}
}
