package chain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// inABubble runs a script in fake time; its engine and store use fake time.
func inABubble(t *testing.T, script *chaintest.Script, f func(t *testing.T, s *setting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &setting{t: t, script: script, store: chaintest.NewMemory(time.Now)}
		s.engine = newEngine(t, s.store, "one", script.Chain())
		f(t, s)
	})
}

func TestALongStageKeepsItsLease(t *testing.T) {
	script := &chaintest.Script{List: "a", During: func(context.Context, string) { time.Sleep(4 * time.Minute) }} // fake time
	inABubble(t, script, func(t *testing.T, s *setting) {
		s.start("r")
		other := newEngine(t, s.store, "other", script.Chain())
		go func() {
			for range 40 {
				time.Sleep(5 * time.Second)
				if worked, err := other.Step(ctx); worked || err != nil {
					t.Errorf("another claimed it: %v", err)
				}
			}
		}()
		if _, err := s.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.story("r"); got != "a:succeeded" {
			t.Error(got)
		}
	})
}

func TestAStageThatHangsIsCutOffAndCountsAsAFailure(t *testing.T) {
	script := &chaintest.Script{List: "a", During: func(ctx context.Context, _ string) { <-ctx.Done() }, Says: "a: error"}
	inABubble(t, script, func(t *testing.T, s *setting) {
		s.start("r")
		begin := time.Now()
		if _, err := s.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 5*time.Minute {
			t.Errorf("it was cut off after %v", took)
		}
		if got := s.story("r"); got != "a:failed" {
			t.Error(got)
		}
	})
}

func TestAStepEndsTenSecondsBeforeALeaseItCannotRenew(t *testing.T) {
	for _, test := range []struct {
		name  string
		renew error
		after time.Duration
	}{
		{"the store is away", errors.New("connection refused"), 50 * time.Second},
		{"another has it", chain.ErrLost, 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cut time.Duration
			script := &chaintest.Script{List: "a"}
			inABubble(t, script, func(t *testing.T, s *setting) {
				begin := time.Now()
				script.During = func(ctx context.Context, _ string) {
					<-ctx.Done()
					cut = time.Since(begin)
				}
				e := newEngine(t, &unrenewed{s.store, test.renew}, "one", script.Chain())
				s.start("r")
				if _, err := e.Step(ctx); !errors.Is(err, chain.ErrLost) {
					t.Errorf("it went on: %v", err)
				}
				if got := s.story("r"); cut != test.after || got != "" {
					t.Errorf("cut off after %v, and wrote %q", cut, got)
				}
			})
		})
	}
}

// unrenewed is a store that renews no lease.
type unrenewed struct {
	chain.Store
	err error
}

func (u *unrenewed) Renew(context.Context, *chain.Record, time.Duration) error { return u.err }

// A process that was paused wakes up after its lease: its context is over before it does
// anything, and its save changes nothing.
func TestAPausedStepDoesNoHarm(t *testing.T) {
	clock := chaintest.NewClock()
	script := &chaintest.Script{List: "a b"}
	s := &setting{t: t, clock: clock, script: script, store: chaintest.NewMemory(clock.Now)}
	c := script.Chain()
	s.engine = newEngine(t, s.store, "one", c)
	other := newEngine(t, s.store, "other", c)
	paused := true
	script.During = func(context.Context, string) {
		if !paused {
			return
		}
		paused = false
		clock.Advance(2 * time.Minute)
		if worked, err := other.Step(ctx); !worked || err != nil {
			t.Errorf("the other did not take over: %v", err)
		}
	}
	s.start("r")
	if _, err := s.engine.Step(ctx); !errors.Is(err, chain.ErrLost) {
		t.Errorf("the paused one saved: %v", err)
	}
	s.settle()
	if got := s.story("r"); got != "a:succeeded b:succeeded" {
		t.Error(got)
	}
}

func TestAStopLetsStepsInFlightEnd(t *testing.T) {
	for _, test := range []struct {
		name  string
		takes time.Duration
		ends  time.Duration
		story string
	}{
		{"in time", 10 * time.Second, 10 * time.Second, "a:succeeded"},
		{"cut off, with no attempt spent", time.Hour, 25 * time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := &chaintest.Script{List: "a b", Says: "a: error"}
			if test.story != "" {
				script.Says = ""
			}
			inABubble(t, script, func(t *testing.T, s *setting) {
				script.During = func(ctx context.Context, _ string) {
					select {
					case <-ctx.Done():
					case <-time.After(test.takes):
					}
				}
				run, stop := context.WithTimeout(ctx, 5*time.Second)
				defer stop()
				s.start("r")
				begin := time.Now()
				s.engine.Run(run)
				if took := time.Since(begin); took != test.ends {
					t.Errorf("it stopped after %v", took)
				}
				if got := s.story("r"); got != test.story {
					t.Errorf("story %q", got)
				}
				r := s.run("r")
				if r.Owner != "" || r.Status != chain.Running || r.Progress.Spent != 0 {
					t.Errorf("left as %+v", r)
				}
				if cut := test.story == ""; cut != r.Progress.LostAt.Equal(begin.Add(test.ends)) {
					t.Errorf("a step was lost at %v", r.Progress.LostAt)
				}
			})
		})
	}
}

// An operator's action between the expiry of a dead broker's lease and the next claim keeps the
// record of the lost step.
func TestAnActionKeepsWordOfTheStepThatWasLost(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b"})
	var told []time.Time
	c := s.script.Chain()
	c.Stages[0].Undo = func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
		told = append(told, r.LostAt)
		return nil
	}
	lossy := &chaintest.Lossy{Store: s.store, Fate: func(call int) chaintest.Fate {
		if call == 1 { // the save of the first step
			return chaintest.Lost
		}
		return chaintest.Done
	}}
	s.engine = newEngine(t, lossy, "one", c)
	s.start("r")
	if _, err := s.engine.Step(ctx); !errors.Is(err, chaintest.ErrKilled) {
		t.Fatal(err)
	}
	over := s.run("r").LeaseTill
	s.clock.AdvanceTo(over.Add(time.Second))
	if err := s.act("r", chain.Cancel); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if r := s.run("r"); r.Status != chain.Cancelled || len(told) != 1 || !told[0].Equal(over) {
		t.Errorf("%s; its undo was told of %v, want %v", r.Status, told, over)
	}
}

// A run that takes hours keeps nothing between its steps but the row.
func TestARunIsWokenWhenItIsDue(t *testing.T) {
	script := &chaintest.Script{List: "a b", Says: "a: again again again; b: again"}
	inABubble(t, script, func(t *testing.T, s *setting) {
		run, stop := context.WithCancel(ctx)
		begin := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.engine.Run(run)
		}()
		time.Sleep(time.Hour) // fake time: nothing to do
		s.start("r")
		time.Sleep(3 * time.Minute)
		stop()
		<-ended
		r := s.run("r")
		if got := r.CompletedAt.Sub(begin); r.Status != chain.Completed || got != time.Hour+2*time.Minute {
			t.Errorf("%s after %v", r.Status, got)
		}
	})
}
