package onboarding_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

// A run that starts over activates a node quarantined by the broker's own checks, once the agent
// has enrolled anew. The run does not activate a node that a person keeps out, and says so before
// anything is deployed.
func TestWhoeverKeepsANodeOutLetsItInAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		out  func(w *world, nodeID string) error
		ends chain.Status
		node broker.NodeStatus
	}{
		{"the checks", func(w *world, id string) error { return w.book.Quarantine(ctx, id, "no baseline") }, chain.Completed, broker.Active},
		{"a person", func(w *world, id string) error { w.book.Put(id, broker.Quarantined); return nil }, chain.FailedManual, broker.Quarantined},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.region.PlugIn(w.box(1))
			id := w.start(1)
			out := false
			w.settle(func() {
				if n := w.node(hostname(1)); !out && n.Epoch > 0 && n.Status == broker.Enrolling {
					out = true
					if err := test.out(w, n.ID); err != nil {
						t.Fatal(err)
					}
				}
			})
			if r := w.run(id); r.Status != chain.FailedManual || !strings.Contains(r.Failure.Message, "quarantined") {
				t.Fatalf("first it is %s: %+v", r.Status, r.Failure)
			}
			w.act(id, chain.RestartClean)
			w.settle(nil)
			r, n := w.run(id), w.node(hostname(1))
			if r.Status != test.ends || n.Status != test.node || n.Epoch != 2 || w.machine(maassim.Box(1).Serial).Status != maassim.Deployed {
				t.Errorf("%s at %s: %+v; node %s of epoch %d", r.Status, r.Stage, r.Failure, n.Status, n.Epoch)
			}
			if told := strings.Contains(strings.Join(stateOf(t, r).Warnings, "\n"), "a person must let it in again"); told != (test.ends != chain.Completed) {
				t.Errorf("the run tells %q", stateOf(t, r).Warnings)
			}
		})
	}
}
