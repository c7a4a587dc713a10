package onboarding_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// A failed layer keeps the node from use, and the failure names the layer's author. After a repair
// the run goes on.
func TestAFailedLayerOfTheFirstBootIsToldAsTheSitesOrOurs(t *testing.T) {
	for _, c := range []struct{ layer, code string }{{"site", "failed_site_bootstrap"}, {"disks", "failed_first_boot"}} {
		t.Run(c.layer, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.region.PlugIn(w.box(1))
			w.book.Reports(map[string]string{"first_boot." + c.layer: "failed: it ended with\x1b[2J status 3"})
			id := w.start(1)
			w.settle(nil)
			r := w.run(id)
			if r.Status != chain.FailedManual || r.Failure == nil || r.Failure.Class != chain.Class(broker.DeployCloudInitFailure) || r.Failure.Code != c.code {
				t.Fatalf("%s: %+v", r.Status, r.Failure)
			}
			if text := r.Failure.Message; !strings.Contains(text, "layer "+c.layer) || !strings.Contains(text, "status 3") || strings.Contains(text, "\x1b") {
				t.Errorf("it says %q", text)
			}
			if n := w.node("c01"); n.Status != broker.Enrolling {
				t.Errorf("the node is %s", n.Status)
			}
			w.book.Reports(map[string]string{"first_boot." + c.layer: "done"})
			w.act(id, chain.Resume)
			w.settle(nil)
			if r := w.run(id); r.Status != chain.Completed || stateOf(t, r).Deploys != 1 {
				t.Errorf("after it was mended: %s, %d deploys", r.Status, stateOf(t, r).Deploys)
			}
		})
	}
}

func TestALayerThatHasNotEndedIsWaitedFor(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	w.book.Reports(map[string]string{"first_boot.site": "done", "first_boot.disks": "waiting"})
	id, waited := w.start(1), 0
	w.settle(func() {
		if r := w.run(id); r.Stage == "wait_for_agent_enrollment" && r.Status == chain.Running && strings.Contains(r.Waiting, "layer disks") {
			if waited++; waited == 20 {
				w.book.Reports(map[string]string{"first_boot.site": "done", "first_boot.disks": "done"})
			}
		}
	})
	if r := w.run(id); r.Status != chain.Completed || waited < 20 {
		t.Errorf("%s after %d looks: %+v", r.Status, waited, r.Failure)
	}
}

// Hardware sync has stages of its own, and a node is usable without RoCE.
func TestLayersThatOthersJudgeAreWarnings(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	w.book.Reports(map[string]string{"first_boot.hw-sync": "failed: no timer", "first_boot.roce": "waiting"})
	id := w.start(1)
	w.settle(nil)
	r := w.run(id)
	if warnings := strings.Join(stateOf(t, r).Warnings, "\n"); r.Status != chain.Completed || !strings.Contains(warnings, "layer hw-sync failed: no timer") {
		t.Errorf("%s, warnings %q", r.Status, warnings)
	}
}
