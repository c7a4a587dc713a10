package onboarding_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

func TestAFailureAtEnrolmentHasAnAgentThatCameCollect(t *testing.T) {
	for name, c := range map[string]struct {
		acts []string
		want bool
	}{
		"its agent has come":   {[]string{"other", "-", "mend", "resume"}, true},
		"its agent never came": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			deployed(w)
			id := w.adopt("r1", "abc123", "")
			acts := c.acts
			w.settle(func() { acts = w.play(id, acts) })
			for range 10 {
				if len(acts) > 0 && acts[0] == "-" {
					acts = acts[1:]
				}
				acts = w.play(id, acts)
				w.settle(func() { acts = w.play(id, acts) })
			}
			r := w.run(id)
			if r.Failure == nil || r.Failure.Class != chain.Class(broker.AgentEnrollmentFailure) {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			asked := w.book.Diagnosed(w.node("c01").ID)
			if got := len(asked) > 0; got != c.want || c.want && !strings.HasPrefix(asked[0], id+"/wait_for_agent_enrollment/") {
				t.Errorf("asked for %q", asked)
			}
			if got := strings.Contains(string(r.Failure.Details), `"diagnostics_task"`); got != c.want {
				t.Errorf("the failure says %s", r.Failure.Details)
			}
		})
	}
}
