package turnover_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/turnover"
)

// A profile may name exactly the stages whose retries some chain reads.
func TestStageRetriesMayNameTheStagesThatAreTriedAgain(t *testing.T) {
	l := &onboarding.Chains{}
	seven := map[string]int{}
	var obey []string
	obeys := func(name string, r chain.Retry) {
		if r.Attempts == 8 && !slices.Contains(obey, name) {
			obey = append(obey, name)
		}
	}
	var walk func(stages []chain.Stage[onboarding.Onboarding])
	walk = func(stages []chain.Stage[onboarding.Onboarding]) {
		for _, s := range stages {
			if s.Retry != nil {
				q := broker.DefaultPolicy()
				q.StageRetries = map[string]int{s.Name: 7}
				obeys(s.Name, s.Retry(onboarding.Onboarding{Policy: q.MachinePolicy}))
			}
			seven[s.Name] = 7
			walk(s.Rescue)
		}
	}
	walk(l.Onboarding().Stages)
	walk(l.Adoption().Stages)
	for _, mode := range turnover.Modes {
		list, _ := (&turnover.Chains{MAAS: l}).Of(mode)
		for _, s := range list.Stages {
			if s.Retry != nil {
				seven[s.Name] = 7
				q := broker.DefaultPolicy()
				q.StageRetries = seven
				obeys(s.Name, s.Retry(turnover.Turnover{Retries: seven, Machine: onboarding.Onboarding{Policy: q.MachinePolicy}}))
			}
		}
	}
	slices.Sort(obey)
	if !slices.Equal(obey, broker.RetriedStages()) {
		t.Errorf("these obey it: %q\nthese may be named: %q", obey, broker.RetriedStages())
	}
	p := broker.NewProfile("p", "s", "default")
	for _, stage := range obey {
		p.Policy.StageRetries[stage] = 1
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
