package allocation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
)

// A node that is slow to fetch each of its tasks has one silence for both, and the time of the tasks. A node that needs
// less is given.
func TestTheTasksOfAStageShareOneSilence(t *testing.T) {
	for name, c := range map[string]struct {
		first, second time.Duration
		want          broker.AllocationStatus
	}{
		"slow twice":     {4 * time.Minute, 2 * time.Minute, broker.AllocationActive},
		"too slow twice": {4*time.Minute + 30*time.Second, 4 * time.Minute, broker.AllocationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			begun := w.clock.Now()
			node := w.ask("a-1", 1).NodeIDs[0]
			silent := func(is bool) { w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = is }) }
			silent(true)
			w.settleFor(c.first)
			silent(false)
			for len(w.book.Tasks(node, "allocation.check_login")) == 0 {
				w.settleFor(time.Second)
				silent(len(w.book.Tasks(node, "allocation.check_login")) > 0)
			}
			w.settleFor(c.second)
			silent(false)
			w.settle()
			a := w.all["a-1"]
			if a.Status != c.want {
				t.Errorf("the allocation is %s %q: %s", a.Status, a.Code, w.state(broker.ProvisionKind))
			}
			if c.want != broker.AllocationFailed {
				return
			}
			if took := a.FailedAt.Sub(begun); took > 9*time.Minute {
				t.Errorf("the tenant waits for %v", took)
			}
			if !strings.Contains(string(w.state(broker.ProvisionKind)), "agent_silent") {
				t.Errorf("the failure is %s", w.state(broker.ProvisionKind))
			}
		})
	}
}

// No node fetches a task at a frozen site, and none counts as silent for that.
func TestAFreezeIsNoSilence(t *testing.T) {
	w := newWorld(t)
	node := w.ask("a-1", 1).NodeIDs[0]
	silent := func(is bool) { w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = is }) }
	silent(true)
	w.settleFor(time.Minute)
	by := chain.Actor{Name: "ada"}
	if err := w.store.PlaceHold(ctx, by, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "storm"}); err != nil {
		t.Fatal(err)
	}
	w.settleFor(30 * time.Minute) // longer than a silence, and shorter than a task may wait to start
	if err := w.store.LiftHold(ctx, by, "dc1", chain.Freeze, "over"); err != nil {
		t.Fatal(err)
	}
	w.settleFor(time.Minute)
	silent(false)
	w.settle()
	w.stands("a-1", broker.AllocationActive, "")
}
