//go:build chaos

package chaos

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/test/fleet"
)

// TestARollingUpgrade replaces three brokers of an earlier release one by one, under 200
// onboardings and operators at work. Nothing fails, and the earlier brokers work with the schema of
// the first new broker. CHAOS_PREVIOUS names the earlier program (make upgrade).
func TestARollingUpgrade(t *testing.T) {
	previous := os.Getenv("CHAOS_PREVIOUS")
	if previous == "" {
		t.Skip("this needs the broker of an earlier release: make upgrade")
	}
	const nodes, runs = 100, 200
	s := newScene(t, previous)
	earlier := s.pg.schema()
	ids := s.setUp(nodes, fleet.Script{Takes: 200 * time.Millisecond})
	s.inService(nodes)
	ctx, rest := context.WithCancel(t.Context())
	defer rest()
	working := make(chan struct{})
	go func() { s.operate(ctx, ids); close(working) }()
	batch := s.onboard(s.lives, runs)
	for n, b := range s.brokers {
		ended := s.ended(batch)
		s.until("a few more onboardings have ended", 5*time.Minute, func() bool { return s.ended(batch) >= min(ended+runs/10, runs) })
		t.Logf("%s: %s is replaced; of %d onboardings %d have ended", stamp(), b.name, runs, s.ended(batch))
		b.end(syscall.SIGTERM)
		b.program = s.program
		b.boot()
		if n == 0 {
			now := s.pg.schema()
			t.Logf("the first new broker has brought the schema from version %d to %d", earlier, now)
			if now <= earlier {
				t.Fatalf("the schema was version %d and is %d with a new broker: %s knows all its migrations, so nothing is upgraded here (name an earlier one: make upgrade PREVIOUS=commit)", earlier, now, previous)
			}
		}
		if n < len(s.brokers)-1 && s.ended(batch) == runs {
			t.Error("there is nothing left for the brokers that are still of the earlier release")
		}
	}
	rest()
	<-working
	s.until("no task is open, and no onboarding", healing, func() bool { return s.settled(batch, runs) })
	s.die()
	s.fleet.Wait()
	if n := s.fleet.Counts().Unwelcome; n > 0 {
		t.Errorf("of %d results the brokers did not want to know", n)
	}
	s.judgeTasks()
	s.judgeAudit()
	s.judgeOnboardings(batch)
}

// ended returns how many onboardings of a batch have completed; -1 if no broker answers.
func (s *scene) ended(batch string) int {
	all, err := s.api.Onboardings(s.t.Context(), client.OnboardingFilter{RunFilter: client.RunFilter{Batch: batch}})
	if err != nil || all.Batch == nil {
		return -1
	}
	return int(all.Batch.Counts["completed"])
}
