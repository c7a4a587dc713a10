package maas_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
)

// What a profile may name is what its number is asked of, and nothing else.
func TestStageRetriesMayNameTheStagesThatAreTriedAgain(t *testing.T) {
	l := &maas.Lifecycle{}
	var obey []string
	var walk func(stages []chain.Stage[maas.Onboarding])
	walk = func(stages []chain.Stage[maas.Onboarding]) {
		for _, s := range stages {
			if s.Retry != nil {
				q := broker.DefaultPolicy()
				q.StageRetries = map[string]int{s.Name: 7}
				if s.Retry(maas.Onboarding{Policy: q}).Attempts == 8 && !slices.Contains(obey, s.Name) {
					obey = append(obey, s.Name)
				}
			}
			walk(s.Rescue)
		}
	}
	walk(l.Onboarding().Stages)
	walk(l.Adoption().Stages)
	slices.Sort(obey)
	if !slices.Equal(obey, broker.RetriedStages) {
		t.Errorf("these obey it: %q\nthese may be named: %q", obey, broker.RetriedStages)
	}
	q := broker.DefaultPolicy()
	for _, stage := range obey {
		q.StageRetries[stage] = 1
	}
	p := broker.NewProfile("p", "s", "default")
	p.Policy = q
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
