package chain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain/chaintest"
)

func TestMemoryIsAStore(t *testing.T) {
	chaintest.Suite(t, func(*testing.T) *chaintest.Backend {
		clock := chaintest.NewClock()
		s := chaintest.NewMemory(clock.Now)
		var applied []string
		s.Apply = func(effect any) error {
			name, ok := effect.(string)
			if !ok {
				return fmt.Errorf("nothing applies a %T", effect)
			}
			applied = append(applied, name)
			return nil
		}
		return &chaintest.Backend{
			Store: s, Advance: clock.Advance, Effect: func(name string) any { return name }, Applied: func() []string { return applied },
			Outbox: func() (types []string) {
				for _, m := range s.Outbox() {
					types = append(types, m.Type)
				}
				return types
			},
			Audits: func() (actions []string) {
				for _, a := range s.Audit() {
					if a.Code != "" {
						a.Action += "!" + a.Code
					}
					actions = append(actions, a.Action)
				}
				return actions
			},
		}
	})
}

func TestSeveralEnginesOnOneStore(t *testing.T) {
	s := chaintest.NewMemory(time.Now)
	chaintest.Several(t, 40, s, s, s)
}
