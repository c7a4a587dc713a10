package rollout_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
)

// Changes of a node since the request of a rollout count when its turn comes.
func TestANodeIsLookedAtWhenItsTurnComes(t *testing.T) {
	for code, as := range map[string]func(*rollout.Candidate){
		"pinned_elsewhere": func(c *rollout.Candidate) { c.Agent.Channel, c.Agent.Pinned = broker.ChannelPinned, "1.2.0" },
		"runs_newer":       func(c *rollout.Candidate) { c.Node.AgentVersion = "1.5.0" },
		"in_sync":          func(c *rollout.Candidate) { c.Node.AgentVersion, c.Agent.Commit, c.Agent.SHA256 = "1.4.0", "abc", "11" },
		"node_status":      func(c *rollout.Candidate) { c.Node.Status = broker.Removing },
		"not_selected":     func(c *rollout.Candidate) { c.Node.Labels = nil },
	} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, 6)
			req := request()
			req.Selector = "rack=1"
			s, err := rollout.New(req, w.candidates()[3:4])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.engine.Start(ctx, chain.Start{ID: "r", Kind: rollout.Kind, Site: broker.NoSite, State: s}); err != nil {
				t.Fatal(err)
			}
			w.machines[id(3)].node = as
			w.settle(time.Hour)
			w.is(chain.Completed, "", "skipped 1")
			if m := w.member(3); m.Code != code || m.Why == "" || len(w.given) > 0 {
				t.Errorf("it is %+v, given %v", m, w.given)
			}
		})
	}
	t.Run("who was named stays meant", func(t *testing.T) {
		w := newWorld(t, 2)
		req := request()
		req.Selector = "g000,g001"
		w.start(req)
		w.settle(time.Hour)
		w.is(chain.Completed, "", "done 2")
	})
}

// Failed members are retried once for each order of an operator, and not at each call of the
// stage.
func TestAWordOfAnOperatorCountsOnce(t *testing.T) {
	w := newWorld(t, 6)
	two := []*machine{w.machines[id(2)], w.machines[id(3)]}
	req := request()
	req.Plan.MaxFailures, req.Plan.Waves = 1, []int{100}
	for _, m := range two {
		m.makes = unwell
	}
	w.start(req)
	for two[0].version != newest.Version {
		w.settle(time.Second)
	}
	for _, m := range two {
		m.busy = true // a tenant comes before it is taken back
	}
	w.settle(time.Hour)
	if m := w.member(3); m.Result != rollout.TakingBack || !m.Parked {
		t.Fatalf("it is %+v", m)
	}
	w.release = broker.Errorf(broker.Refused, "release_revoked", "it was revoked")
	for _, m := range two { // one after the other
		m.busy = false
		w.advance()
		w.settle(15 * time.Second)
	}
	w.act(chain.Rerun)
	w.settle(time.Hour)
	w.is(chain.FailedManual, "release_revoked", "waiting 2, done 2, taken_back 2")
}
