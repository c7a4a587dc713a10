package broker

import (
	"strings"
	"testing"
)

func TestAKindOfRunIsFoundByItsNameOrWhatBeginsIt(t *testing.T) {
	for kind, want := range map[string]struct {
		noun                     string
		turnsOver, terminalsStay bool
	}{
		"node.onboarding":            {"onboarding", false, false},
		"node.adoption":              {"onboarding", false, false},
		"node.decommission/reimage":  {"decommission", true, false},
		"agent.upgrade/update":       {"node agent-lifecycle", false, true},
		"agent.rollout":              {"rollout", false, false},
		"node.decommissioned/x":      {"", false, false},
		"agent.rollouts":             {"", false, false},
		"a.kind.of.a.later.release/": {"", false, false}, // no exception holds for the kind
		"":                           {"", false, false},
	} {
		if k := RunKindOf(kind); k.Noun != want.noun || k.TurnsOver != want.turnsOver || k.TerminalsStay != want.terminalsStay {
			t.Errorf("%q is %+v", kind, k)
		}
		if c := RunKindOf(kind).Command("show r-1"); want.noun == "" && strings.HasPrefix(c, "hostler") || want.noun != "" && c != "hostler "+want.noun+" show r-1" {
			t.Errorf("for %q a person is told to run %q", kind, c)
		}
	}
}
