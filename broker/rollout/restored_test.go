package rollout_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
)

// A restored broker does not know the outcome of updates that were under way in the backup: a
// node's running version stays, and a resumed rollout gives the release to nodes with the
// previous release.
func TestAResumedRolloutOfARestoredBrokerTakesNothingBack(t *testing.T) {
	for name, tt := range map[string]struct {
		runs, counts string
		result       rollout.Result
		code         string
		cancelled    bool   // in place of a resume
		before       string // who has cancelled the node's run by then
	}{
		"it has the release": {newest.Version, "done 3, skipped 1", rollout.Skipped, "in_sync", false, ""},
		"it has the release, and an operator cancelled its run":                  {newest.Version, "done 3, skipped 1", rollout.Skipped, "in_sync", false, "ada"},
		"it has the release, and the rollout died when it had cancelled its run": {newest.Version, "done 3, skipped 1", rollout.Skipped, "in_sync", false, rollout.Actor.Name},
		"it has one that is newer":                                               {"1.5.0", "done 3, skipped 1", rollout.Skipped, "runs_newer", false, ""},
		"it has the version before":                                              {"1.3.0", "done 4", rollout.Done, "", false, ""},
		"it has the release, and the rollout is cancelled":                       {newest.Version, "", rollout.Skipped, "rollout_aborted", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			for i := range 4 {
				m := w.machines[id(i)]
				m.node = func(c *rollout.Candidate) {
					if m.version == newest.Version {
						c.Agent.Commit, c.Agent.SHA256 = newest.Commit, newest.SHA256
					}
				}
			}
			w.start(request())
			w.settle(took / 2)
			of := w.member(0)
			run := w.runs[of.RunID("r")]
			if of.Result != rollout.Running || run == nil {
				t.Fatalf("the canary is %+v", of)
			}
			w.runs[run.ID] = new(run.Restored(w.clock.Now()).Record)
			if r := w.runs[run.ID]; tt.before != "" {
				r.Status, r.AskedBy, r.CompletedAt = chain.Cancelled, tt.before, w.clock.Now()
			}
			w.machines[id(0)].version = tt.runs // in the lost hour
			if tt.cancelled {
				w.act(chain.Cancel)
			}
			w.settle(time.Hour)
			if r, _ := w.rollout(); tt.cancelled && r.Status != chain.Cancelled {
				t.Errorf("it is %s", r.Status)
			} else if !tt.cancelled {
				w.is(chain.Completed, "", tt.counts)
			}
			if m := w.member(0); m.Result != tt.result || m.Code != tt.code || w.machines[id(0)].version < tt.runs {
				t.Errorf("the node runs %s: %+v", w.machines[id(0)].version, m)
			}
			for _, g := range w.given {
				if g[:5] != newest.Version {
					t.Errorf("given was %s", g)
				}
			}
		})
	}
}
