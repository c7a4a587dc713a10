package allocation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAnAllocationIsProvisionedAndReleasedWithProof(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.settle()
	w.stands("a-1", broker.AllocationActive, "")
	for _, n := range a.NodeIDs {
		if tasks := w.book.Tasks(n, "allocation.provision_user"); len(tasks) != 1 || !strings.Contains(string(tasks[0].Params), `"username":"tenant"`) {
			t.Errorf("node %s was asked for %d accounts", n, len(tasks))
		}
		login := `"address":"10.0.0.` + n[len(n)-1:] + `"`
		if tasks := w.book.Tasks(n, "allocation.check_login"); len(tasks) != 1 || !strings.Contains(string(tasks[0].Params), login) {
			t.Errorf("node %s was asked for %d logins", n, len(tasks))
		}
		if !slices.Contains(w.proven, n+" at 10.0.0."+n[len(n)-1:]) {
			t.Errorf("logins proven: %v", w.proven)
		}
	}
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if len(w.all["a-1"].CertificateIDs) != 2 || len(w.book.Forced) > 0 {
		t.Errorf("certificates %v, ended by force %v", w.all["a-1"].CertificateIDs, w.book.Forced)
	}
	if got := strings.Join(w.went, " "); got != "provisioning active releasing released" {
		t.Errorf("it went %s", got)
	}
}

// A release waits for a place of its site for as long as it takes, and fails for nothing.
func TestAReleaseWaitsForAPlace(t *testing.T) {
	w := newWorld(t)
	w.ask("a-1", 2)
	w.settle()
	w.full = 500
	begun := w.clock.Now()
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if took := w.clock.Now().Sub(begun); w.full > 0 || took < 500*10*time.Second/2 {
		t.Errorf("%d places are still to be refused after %v", w.full, took)
	}
}

// The agent of an earlier release cannot prove a login. Its node is given all the same, without a proof.
func TestAnAgentOfAnEarlierReleaseProvesNoLogin(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.old = a.NodeIDs[0]
	w.settle()
	w.stands("a-1", broker.AllocationActive, "")
	if len(w.proven) != 1 || !strings.HasPrefix(w.proven[0], a.NodeIDs[1]) {
		t.Errorf("logins proven: %v", w.proven)
	}
	var state allocation.Work
	if r := w.runs(broker.ProvisionKind); len(r) != 1 || json.Unmarshal(r[0].State, &state) != nil || !slices.Equal(state.Unproven, []string{w.old}) {
		t.Errorf("the run says %+v", state)
	}
}

// Whatever fails, the nodes come back through a turnover where the account may be.
func TestAnAllocationThatCannotBeProvisionedFails(t *testing.T) {
	for name, c := range map[string]struct {
		spoil     func(w *world, last string)
		code      string
		turnovers int
	}{
		"the account cannot be made": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{"allocation.provision_user": "account_exists"}
			})
		}, "node_not_ready", 2},
		"the tenant cannot log in": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{"allocation.check_login": "login_refused"}
			})
		}, "node_not_ready", 2},
		"the keys are gone": {func(w *world, _ string) { w.keys = nil }, "ssh_key_not_found", 0},
		"a node is not handed out": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) { m.Status = broker.Quarantined })
		}, "node_not_ready", 1},
		"a node is silent": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) { m.Silent = true })
		}, "node_not_ready", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("a-1", 2)
			c.spoil(w, a.NodeIDs[1])
			begun := w.clock.Now()
			w.settle()
			w.stands("a-1", broker.AllocationFailed, c.code)
			if n := len(w.runs(broker.TurnoverKinds)); n != c.turnovers {
				t.Errorf("%d turnovers were begun, want %d", n, c.turnovers)
			}
			if took := w.all["a-1"].FailedAt.Sub(begun); took > 6*time.Minute {
				t.Errorf("the tenant waits for %v", took)
			}
			if r := w.runs(broker.ProvisionKind); len(r) != 1 || r[0].Status != chain.Completed {
				t.Errorf("runs: %+v", r)
			}
			if m := w.book.Machine(a.NodeIDs[0]); m.Status != broker.Active || len(m.Users) > 0 || m.TurnoverOwed {
				t.Errorf("the first node is %s, with %d users", m.Status, len(m.Users))
			}
		})
	}
}

func TestACancelledProvisioningFails(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 1)
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) {
		m.Works = map[string]time.Duration{"allocation.provision_user": time.Minute}
	})
	w.look()
	for range 3 {
		if _, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.act(w.runs(broker.ProvisionKind)[0].ID, chain.Cancel)
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "provisioning_cancelled")
	w.clean("a-1")
}

// A turnover may take a node by force between the account and the activation. The tenant is not billed for
// nodes that are not all there.
func TestAnAllocationWhoseNodeIsTakenByForceFails(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.taken = true
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "node_not_ready")
	w.clean("a-1")
	if got := strings.Join(w.went, " "); got != "provisioning failed" || len(w.runs(broker.TurnoverKinds)) != len(a.NodeIDs) {
		t.Errorf("it went %s, with %d turnovers", got, len(w.runs(broker.TurnoverKinds)))
	}
}

// A cancel that comes after a status was reached, and before the save, changes nothing: the allocation
// stays active, or released, and the run ends.
func TestACancelThatComesTooLateChangesNothing(t *testing.T) {
	for _, c := range []struct {
		kind string
		to   broker.AllocationStatus
	}{{broker.ProvisionKind, broker.AllocationActive}, {broker.ReleaseKind, broker.AllocationReleased}, {broker.ReleaseKind, broker.AllocationReleaseFailed}} {
		t.Run(string(c.to), func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("a-1", 1)
			if c.kind == broker.ReleaseKind {
				w.settle()
				w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
			}
			if c.to == broker.AllocationReleaseFailed {
				w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Residue = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}} })
			}
			lost := false
			w.lossy.Fate = func(int) chaintest.Fate { // the save after the status was reached is lost
				if lost || w.all["a-1"].Status != c.to {
					return chaintest.Done
				}
				lost = true
				return chaintest.Lost
			}
			w.look()
			for range 1000 {
				if lost {
					break
				}
				if _, err := w.engine.Step(ctx); err != nil && !lost {
					t.Fatal(err)
				}
				w.clock.Advance(time.Second)
			}
			id := w.runs(c.kind)[0].ID
			w.act(id, chain.Cancel)
			w.settle()
			w.settle()
			if got := w.all["a-1"].Status; got != c.to {
				t.Errorf("the allocation is %s", got)
			}
			for _, r := range w.runs(c.kind) {
				if !r.Status.Ended() {
					t.Errorf("the run is %s at %s: %v", r.Status, r.Stage, r.Failure)
				}
			}
		})
	}
}

// A node that another run has when its allocation fails is turned over when that run has ended. A node
// that cannot be turned over keeps no other node from it, and the run stops for a person.
func TestNodesOfAFailedAllocationAreNotForgotten(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 3)
	w.book.Change(a.NodeIDs[2], func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"allocation.provision_user": "account_exists"}
	})
	w.held = map[string]*chain.Record{a.NodeIDs[0]: {ID: "r-upgrade", Kind: broker.AgentKinds + "/self_update", Status: chain.Running}}
	w.refuse = a.NodeIDs[1]
	for range 100 {
		w.look()
		if _, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(5 * time.Second)
	}
	w.stands("a-1", broker.AllocationFailed, "node_not_ready")
	if m := w.book.Machine(a.NodeIDs[2]); m.Status != broker.Active || len(m.Users) > 0 {
		t.Errorf("the third node is %s, with %d users", m.Status, len(m.Users))
	}
	r := w.runs(broker.ProvisionKind)[0]
	if !r.Status.Stopped() || r.Stage != "give_nodes_back" {
		t.Fatalf("the run is %s at %s", r.Status, r.Stage)
	}
	w.held, w.refuse = nil, ""
	w.act(r.ID, chain.Resume)
	w.settle()
	w.clean("a-1")
}

// A node whose agent refuses the account has no reason against it. Without a turnover it would be given
// to the next tenant, and to the one after.
func TestANodeThatRefusesTheAccountIsTurnedOver(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.refuses = a.NodeIDs[0]
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "node_not_ready")
	for i, n := range a.NodeIDs {
		if got := len(w.book.Tasks(n, "node.gpu_scrub")); got != 1 {
			t.Errorf("node %d was turned over %d times", i, got)
		}
	}
	w.clean("a-1")
}

// A release does not overrule a person who has stopped a turnover, or takes the node out of the fleet.
func TestAReleaseResumesNoTurnoverThatAPersonStopped(t *testing.T) {
	for name, holder := range map[string]chain.Record{
		"marked":       {ID: "r-1", Kind: "node.decommission/soft_reset", Status: chain.FailedManual, Failure: &chain.Failure{Code: chain.CodeMarked}},
		"decommission": {ID: "r-1", Kind: "node.decommission/full_decommission", Status: chain.FailedManual, Failure: &chain.Failure{Code: "x"}},
		"no turnover":  {ID: "r-1", Kind: broker.AgentKinds, Status: chain.FailedManual},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("a-1", 1)
			w.settle()
			w.held = map[string]*chain.Record{a.NodeIDs[0]: &holder}
			w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
			w.settle()
			w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
			if len(w.resumed) > 0 {
				t.Errorf("resumed: %v", w.resumed)
			}
		})
	}
}

// Whatever an operator does with a run, the allocation ends, or the run says that it waits.
func TestEachActionOnAStoppedRun(t *testing.T) {
	for _, action := range []chain.Action{chain.RetryStage, chain.Resume, chain.Rerun, chain.RestartClean, chain.Cancel, chain.Adopt} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("a-1", 1)
			w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{"allocation.provision_user": "account_exists"}
			})
			w.refuse = a.NodeIDs[0]
			w.settle()
			w.refuse = ""
			r := w.runs(broker.ProvisionKind)[0]
			if r.Stage != "give_nodes_back" || !r.Status.Stopped() {
				t.Fatalf("the run is %s at %s", r.Status, r.Stage)
			}
			w.act(r.ID, action)
			w.settle()
			w.stands("a-1", broker.AllocationFailed, "node_not_ready")
			w.clean("a-1")
			if r := w.runs(broker.ProvisionKind); len(r) != 1 || !r[0].Status.Ended() {
				t.Errorf("the run is %s at %s: %v", r[0].Status, r[0].Stage, r[0].Failure)
			}
		})
	}
}

// A release waits for the reimage that follows a silent node, and is no failure meanwhile.
func TestAReleaseWaitsForTheReimageOfASilentNode(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 1)
	w.settle()
	node := a.NodeIDs[0]
	w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = true })
	w.replaces = node
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settleFor(40 * time.Minute)
	r := w.runs(broker.TurnoverKinds)
	if len(r) != 1 || !r[0].Status.Stopped() || r[0].Stage != "drain_node" {
		t.Fatalf("turnovers: %+v", r)
	}
	w.stands("a-1", broker.AllocationReleasing, "")
	w.act(r[0].ID, chain.Cancel)
	w.settleFor(5 * time.Minute)
	w.stands("a-1", broker.AllocationReleasing, "")
	w.replaces = "" // the reimage did not begin
	w.settleFor(5 * time.Minute)
	w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
}

// An active allocation is not taken from its tenant by the end of its run.
func TestACancelAfterTheEndOfProvisioningChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.ask("a-1", 1)
	w.settle()
	_, err := w.engine.Act(ctx, chain.Order{ID: w.runs(broker.ProvisionKind)[0].ID, Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "no"})
	if err == nil {
		t.Error("an ended run is cancelled")
	}
	w.stands("a-1", broker.AllocationActive, "")
}

// A node that cannot be proven clean keeps its allocation, until a person has repaired the cause and
// the tenant or an admin goes on. Nodes that are clean already are not turned over again.
func TestAReleaseThatFailsGoesOnFromWhereItStands(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.settle()
	dirty := a.NodeIDs[1]
	w.book.Change(dirty, func(m *turnovertest.Machine) {
		m.Residue = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}}
	})
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
	turnovers := w.runs(broker.TurnoverKinds)
	if len(turnovers) != 2 {
		t.Fatalf("%d turnovers", len(turnovers))
	}
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser) // nothing is repaired yet
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")

	w.book.Change(dirty, func(m *turnovertest.Machine) { m.Residue = nil })
	w.move("a-1", broker.AllocationReleasing, broker.AllocationAdmin)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if n := len(w.runs(broker.TurnoverKinds)); n != 2 {
		t.Errorf("%d turnovers for two nodes", n)
	}
}

// A turnover may end at any moment of a look. Its certificate then counts: the release has no failed
// attempt, and begins no second turnover.
func TestATurnoverThatEndsDuringALookIsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.ask("a-1", 1)
	w.settle()
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.look()
	turnover := func() (r chain.Record) {
		for _, r = range w.runs(broker.TurnoverKinds) {
		}
		return r
	}
	for range 200 {
		if turnover().Stage == "enable_node" {
			break
		}
		if worked, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		} else if !worked {
			w.clock.Advance(time.Second)
		}
	}
	ended := false
	w.atHolder = func() {
		for range 10 {
			if ended = turnover().Status == chain.Completed; ended {
				return
			}
			if worked, err := w.engine.Step(ctx); err != nil {
				t.Fatal(err)
			} else if !worked {
				w.clock.Advance(time.Second)
			}
		}
	}
	w.clock.Advance(time.Second)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	events, err := w.store.Events(ctx, w.runs(broker.ReleaseKind)[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Status == chain.Failed {
			t.Errorf("%s failed: %s", e.Stage, e.Message)
		}
	}
	if n := len(w.runs(broker.TurnoverKinds)); !ended || n != 1 {
		t.Errorf("%d turnovers; the first ended during the look: %v", n, ended)
	}
}

// A tenant's node that is silent holds its turnover, and those of the other nodes, up only for the time
// that a node has to fetch a task.
func TestASilentNodeHoldsNoReleaseUpForLong(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.settle()
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Silent = true })
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	begun := w.clock.Now()
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
	for _, r := range w.runs(broker.TurnoverKinds) {
		if waited := r.RequestedAt.Sub(begun); waited > 6*time.Minute {
			t.Errorf("a turnover begins after %v", waited)
		}
	}
	if m := w.book.Machine(a.NodeIDs[1]); m.Status != broker.Active || len(m.Users) > 0 {
		t.Errorf("the other node is %s, with %d users", m.Status, len(m.Users))
	}
}

// A person who cancels a turnover is not overruled by the same release.
func TestATurnoverThatAPersonCancelsIsNotBegunAgainByItself(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 1)
	w.settle()
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Works = map[string]time.Duration{"node.drain": time.Hour} })
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.look()
	for range 30 {
		if len(w.runs(broker.TurnoverKinds)) > 0 {
			break
		}
		if _, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(5 * time.Second)
	}
	w.act(w.runs(broker.TurnoverKinds)[0].ID, chain.Cancel)
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Works = nil })
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, "cleaning_failed")
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
}

func TestACancelledReleaseIsLeftToAPerson(t *testing.T) {
	w := newWorld(t)
	w.ask("a-1", 1)
	w.settle()
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.look()
	if _, err := w.engine.Step(ctx); err != nil {
		t.Fatal(err)
	}
	w.act(w.runs(broker.ReleaseKind)[0].ID, chain.Cancel)
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, "release_cancelled")
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
}

// The turnover ends the account where the release could not.
func TestAnAccountThatDoesNotEndIsLeftToTheTurnover(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.settle()
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Cancels = map[string]int{"allocation.revoke_user": 3} })
	w.move("a-1", broker.AllocationReleasing, broker.AllocationBilling)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if len(w.book.Forced) != 1 {
		t.Errorf("ended by force: %v", w.book.Forced)
	}
}

// A broker that dies at any call of the store, once or with its answer lost, changes no outcome. The
// next tenant has the node from the moment of the release on.
func TestADeathAtAnyCallChangesNoOutcome(t *testing.T) {
	play := func(t *testing.T, fate chaintest.Fate, at int) (calls int) {
		w := newWorld(t)
		w.lossy.Fate = func(call int) chaintest.Fate {
			if call == at {
				return fate
			}
			return chaintest.Done
		}
		a := w.ask("a-1", 1)
		b := w.ask("a-2", 1)
		w.book.Change(b.NodeIDs[0], func(m *turnovertest.Machine) {
			m.Fails = map[string]taskcatalog.Code{"allocation.provision_user": "account_exists"}
		})
		w.settle()
		w.stands("a-1", broker.AllocationActive, "")
		w.stands("a-2", broker.AllocationFailed, "node_not_ready")
		w.next = "a-3"
		w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
		w.settle()
		w.stands("a-1", broker.AllocationReleased, "")
		w.stands("a-3", broker.AllocationActive, "")
		w.clean("a-2")
		for _, n := range append(a.NodeIDs, b.NodeIDs...) {
			if got := len(w.book.Tasks(n, "node.gpu_scrub")); got != 1 {
				t.Errorf("node %s was scrubbed %d times", n, got)
			}
		}
		for _, r := range w.runs("") {
			if r.Status != chain.Completed {
				t.Errorf("run %s of %s is %s at %s: %v", r.ID, r.Kind, r.Status, r.Stage, r.Failure)
			}
		}
		return w.lossy.Calls()
	}
	atEachCall(t, 100, play)
}
