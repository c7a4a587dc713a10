package allocation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
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
		}, "account_exists", 2},
		"the keys are gone": {func(w *world, _ string) { w.keys = nil }, "ssh_key_not_found", 0},
		"a node is not handed out": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) { m.Status = broker.Quarantined })
		}, "node_status", 1},
		"a node is silent": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) { m.Silent = true })
		}, "agent_silent", 2},
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
			if took := w.all["a-1"].FailedAt.Sub(begun); took > 15*time.Minute {
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
	w.stands("a-1", broker.AllocationReleaseFailed, w.all["a-1"].Code)
	if w.all["a-1"].Code == "" {
		t.Error("the failure has no code")
	}
	turnovers := w.runs(broker.TurnoverKinds)
	if len(turnovers) != 2 {
		t.Fatalf("%d turnovers", len(turnovers))
	}
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser) // nothing is repaired yet
	w.settle()
	w.stands("a-1", broker.AllocationReleaseFailed, w.all["a-1"].Code)

	w.book.Change(dirty, func(m *turnovertest.Machine) { m.Residue = nil })
	w.move("a-1", broker.AllocationReleasing, broker.AllocationAdmin)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if n := len(w.runs(broker.TurnoverKinds)); n != 2 {
		t.Errorf("%d turnovers for two nodes", n)
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
	w.stands("a-1", broker.AllocationReleaseFailed, "turnover_ended")
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

// A broker that dies at any call of the store, once or with its answer lost, changes no outcome.
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
		w.stands("a-2", broker.AllocationFailed, "account_exists")
		w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
		w.settle()
		w.stands("a-1", broker.AllocationReleased, "")
		w.clean("a-1")
		w.clean("a-2")
		for _, n := range append(a.NodeIDs, b.NodeIDs...) {
			if got := len(w.book.Tasks(n, "node.gpu_scrub")); got != 1 {
				t.Errorf("node %s was scrubbed %d times", n, got)
			}
		}
		return w.lossy.Calls()
	}
	calls := play(t, chaintest.Done, -1)
	if calls < 100 {
		t.Errorf("%d calls are too few for the story", calls)
	}
	for at := range calls {
		for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
			t.Run(fmt.Sprintf("call %d, fate %d", at, fate), func(t *testing.T) { play(t, fate, at) })
			if t.Failed() {
				return
			}
		}
	}
}
