package broker

import "testing"

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
		"node.decommissioned/x":      {"run", false, false},
		"agent.rollouts":             {"run", false, false},
		"a.kind.of.a.later.release/": {"run", false, false}, // no exception holds for it
		"":                           {"run", false, false},
	} {
		if k := RunKindOf(kind); k.Noun != want.noun || k.TurnsOver != want.turnsOver || k.TerminalsStay != want.terminalsStay {
			t.Errorf("%q is %+v", kind, k)
		}
	}
}
