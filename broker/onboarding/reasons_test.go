package onboarding_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/test/maassim"
)

// A failure gives the reason in MAAS's own words: a status and a message that repeat each other are
// no reason.
func TestAFailureSaysWhyInTheWordsOfMAAS(t *testing.T) {
	for _, version := range []string{"3.4", "3.6"} {
		for kind, want := range map[maassim.Kind]string{
			maassim.CommissioningFails: "commissioning script '50-maas-01-commissioning' failed during post-processing",
			maassim.TestingFails:       "Failed testing: Script - smartctl-validate failed",
			maassim.DeployFails:        "curtin command install; Marking node failed - Installation failed",
			maassim.PreseedFails:       "Failed to render preseed: name 'release' is not defined",
		} {
			w := newWorld(t, version)
			w.region.PlugIn(w.box(1))
			w.region.Inject(maassim.Fault{Kind: kind})
			id := w.start(1)
			w.settle(nil)
			r := w.run(id)
			if r.Failure == nil || !strings.Contains(r.Failure.Message, want) || strings.Contains(r.Failure.Message, "Failed commissioning, Failed") {
				t.Errorf("MAAS %s, %s: %+v, want %q", version, kind, r.Failure, want)
			}
		}
	}
}

// An event older than the failed action is no reason for the failure.
func TestAnOlderErrorIsNoReason(t *testing.T) {
	w := newWorld(t, "3.4")
	w.region.PlugIn(w.box(1))
	w.region.Inject(maassim.Fault{Kind: maassim.CommissioningFails})
	id := w.start(1)
	w.settle(nil)
	w.region.Inject(maassim.Fault{Kind: maassim.TestingFails})
	w.act(id, "resume")
	w.settle(nil)
	if f := w.run(id).Failure; f == nil || strings.Contains(f.Message, "post-processing") || !strings.Contains(f.Message, "smartctl-validate") {
		t.Errorf("%+v", f)
	}
}
