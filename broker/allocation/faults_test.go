package allocation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// What ends a provisioning says which nodes were at fault, and which were ready.
func TestAFailedProvisioningBlamesTheNodesAtFault(t *testing.T) {
	fails := func(task string, code taskcatalog.Code) func(*world, string) {
		return func(w *world, node string) {
			w.book.Change(node, func(m *turnovertest.Machine) { m.Fails = map[string]taskcatalog.Code{task: code} })
		}
	}
	for name, c := range map[string]struct {
		spoil func(w *world, last string)
		blame string // code; empty: nobody
		ready int    // nodes that were ready before the other one had failed for good
	}{
		"the account cannot be made": {fails("allocation.provision_user", "user_exists"), "user_exists", 0},
		"the tenant cannot log in":   {fails("allocation.check_login", "login_refused"), "login_refused", 1},
		"the agent refuses":          {func(w *world, last string) { w.refuses = last }, "draining", 0},
		"the agent does not answer":  {func(w *world, last string) { w.book.Change(last, func(m *turnovertest.Machine) { m.Silent = true }) }, "agent_silent", 1},
		"the request was none":       {fails("allocation.provision_user", taskcatalog.CodeBadParams), "", 0},
		"the task was cancelled":     {fails("allocation.check_login", taskcatalog.CodeCanceled), "", 1},
		"the node is not handed out": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) { m.Status = broker.Quarantined })
		}, "", 0},
		"the keys are gone":                       {func(w *world, _ string) { w.keys = nil }, "", 0},
		"a turnover has taken a node":             {func(w *world, _ string) { w.taken = true }, "", 0},
		"no key is permitted":                     {func(w *world, last string) { w.hardened = last }, "", 0},
		"no key is permitted, and one was before": {func(w *world, last string) { w.hardened, w.accepted = last, true }, "keys_refused", 0},
		"nothing": {func(*world, string) {}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("a-1", 2)
			c.spoil(w, a.NodeIDs[1])
			w.settle()
			if len(w.ended) != 1 {
				t.Fatalf("it ended as %+v", w.ended)
			}
			end, want := w.ended[0], "[]"
			if c.blame != "" {
				want = fmt.Sprintf("[%s %s]", a.NodeIDs[1], c.blame)
			}
			var got []string
			for _, f := range end.Faults {
				if got = append(got, f.NodeID+" "+f.Code); f.Message == "" {
					t.Errorf("%+v says nothing", f)
				}
			}
			if fmt.Sprint(got) != want {
				t.Errorf("blamed are %v, want %s", got, want)
			}
			if len(end.Provisioned) != c.ready || len(end.Faults) > 0 && end.HoldAfter != 3 {
				t.Errorf("ready were %v, and the limit is %d", end.Provisioned, end.HoldAfter)
			}
		})
	}
}

// A node that is ready at the second attempt is not at fault.
func TestANodeThatIsReadyInTheEndIsNotBlamed(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 2)
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"allocation.check_login": "login_refused"}
	})
	w.book.Change(a.NodeIDs[1], func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"allocation.check_login": "login_refused"}
	})
	for len(w.book.Tasks(a.NodeIDs[0], "allocation.check_login")) == 0 {
		w.settleFor(time.Second)
	}
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Fails = nil })
	w.settle()
	if len(w.ended) != 1 || !slices.Equal(w.ended[0].Provisioned, a.NodeIDs[:1]) || len(w.ended[0].Faults) != 1 || w.ended[0].Faults[0].NodeID != a.NodeIDs[1] {
		t.Errorf("it ended as %+v", w.ended)
	}
}

// A cancelled provisioning says nothing of its nodes.
func TestACancelledProvisioningBlamesNobody(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 1)
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"allocation.check_login": "login_refused"}
	})
	for !strings.Contains(string(w.state(broker.ProvisionKind)), "login_refused") {
		w.settleFor(time.Second)
	}
	w.act(w.runs(broker.ProvisionKind)[0].ID, chain.Cancel)
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "provisioning_cancelled")
	if len(w.ended) != 1 || len(w.ended[0].Faults) > 0 {
		t.Errorf("it ended as %+v", w.ended)
	}
}

// state is the state of the first run of a kind.
func (w *world) state(kind string) []byte {
	w.Helper()
	if all := w.runs(kind); len(all) > 0 {
		return all[0].State
	}
	return nil
}

// The tenant is told that its keys are at fault, and which.
func TestKeysThatNoServerAcceptsFailTheAllocationByTheirOwnCode(t *testing.T) {
	w := newWorld(t)
	a := w.ask("a-1", 1)
	w.hardened = a.NodeIDs[0]
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "ssh_keys_refused")
	if len(w.refusedKeys) == 0 || w.refusedKeys[0] != a.NodeIDs[0]+" SHA256:a" {
		t.Errorf("refused are %v", w.refusedKeys)
	}
	w.clean("a-1")
	w.accepted = true
	b := w.ask("a-2", 1)
	w.hardened = b.NodeIDs[0]
	w.settle()
	w.stands("a-2", broker.AllocationFailed, "node_not_ready")
}
