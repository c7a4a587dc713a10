package onboarding_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

func TestAMachineBecomesAnActiveNode(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, version)
			b := w.box(1)
			w.region.PlugIn(b)
			id := w.start(1)
			w.settle(nil)
			if got := w.story(id); got != happy("") {
				t.Errorf("story\n  %s\nwant\n  %s\n%+v", got, happy(""), w.run(id).Failure)
			}
			if r := w.run(id); r.Status != chain.Completed {
				t.Errorf("ends %s: %s", r.Status, r.State)
			}
			m, n := w.machine(b.Serial), w.node("c01")
			if m.Status != maassim.Deployed || w.region.Happened(b.Serial, "deploy") != 1 || m.Series != "noble" {
				t.Errorf("machine: %+v", m)
			}
			if n.Status != broker.Active || n.MAASSystemID != m.SystemID || m.Annotations["hostler-node"] != n.ID || m.Annotations["hostler-run"] != id {
				t.Errorf("node %+v, marks %v", n, m.Annotations)
			}
		})
	}
}
