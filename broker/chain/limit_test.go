package chain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

func TestALimitEndsAStage(t *testing.T) {
	limit := chain.Limit{After: 100 * time.Second, Class: "power", Code: "failed_commission_timeout"}
	for _, test := range []struct {
		name, list, says string
		retry            chain.Retry
		story            string
		class            chain.Class
		code, message    string
		calls            int
	}{
		{
			name: "of waiting, at the limit and no later", list: "a b", says: "a: again again again again again again",
			story: "a:failed", class: "power", code: "failed_commission_timeout", message: "not within 1m40s: a is not there yet", calls: 5,
		},
		{
			name: "but a late success counts", list: "a", says: "a: again again again again ok",
			story: "a:succeeded", calls: 5,
		},
		{
			name: "of attempts without number", list: "a b", says: "a: transient transient transient transient transient transient transient transient", retry: chain.Retry{Attempts: chain.Unlimited, First: 20 * time.Second, Max: 20 * time.Second},
			story: "a:failed a:failed a:failed a:failed a:failed a:failed", class: "power", code: "failed_commission_timeout", message: "not within 1m40s, last: a says transient", calls: 6,
		},
		{
			name: "but not of what is no matter of time", list: "a b", says: "a: again again again again mismatch",
			story: "a:failed", class: "mismatch", code: "mismatch", message: "a says mismatch", calls: 5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSetting(t, &chaintest.Script{List: test.list, Says: test.says, Retry: test.retry, Limit: limit})
			s.start("r")
			s.settle()
			r := s.run("r")
			if got := s.story("r"); got != test.story || len(s.script.Calls()) != test.calls {
				t.Errorf("story %q in %d calls, want %q in %d", got, len(s.script.Calls()), test.story, test.calls)
			}
			switch {
			case test.class == "":
				if r.Status != chain.Completed {
					t.Errorf("%s: %+v", r.Status, r.Failure)
				}
			case r.Failure == nil || r.Failure.Class != test.class || r.Failure.Code != test.code || r.Failure.Message != test.message:
				t.Errorf("failed with %+v", r.Failure)
			case r.NextAction != chaintest.ScriptClasses[test.class].NextAction || r.NextAction == "":
				t.Errorf("next action %q", r.NextAction)
			}
		})
	}
}

func TestALimitMayBeRescued(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b(x>a)", Says: "b: again again again", Limit: chain.Limit{After: time.Minute, Class: "deploy"}})
	s.start("r")
	s.settle()
	if got := s.story("r"); got != "a:succeeded b:failed x:succeeded a:succeeded b:succeeded" {
		t.Error(got)
	}
}

func TestAnOperatorsRetryStartsTheClockAnew(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a", Says: "a: again again again again again", Limit: chain.Limit{After: time.Minute}})
	s.start("r")
	s.settle()
	s.clock.Advance(time.Hour)
	if err := s.act("r", chain.RetryStage); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got, r := s.story("r"), s.run("r"); got != "a:failed a:succeeded" || r.Status != chain.Completed {
		t.Errorf("%q, %s", got, r.Status)
	}
}

// Without a limit, unlimited attempts would never end.
func TestUnlimitedAttemptsNeedALimit(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a", Says: "a: transient transient transient", Retry: chain.Retry{Attempts: chain.Unlimited}})
	s.start("r")
	s.settle()
	if got := s.story("r"); got != "a:failed" {
		t.Error(got)
	}
}

func TestBackoffDoublesUpToItsMost(t *testing.T) {
	for _, test := range []struct {
		retry  chain.Retry
		failed int
		want   time.Duration
	}{
		{chain.Retry{}, 1, 0},
		{chain.Retry{First: time.Second}, 1, time.Second},
		{chain.Retry{First: time.Second}, 4, 8 * time.Second},
		{chain.Retry{First: time.Second, Max: 5 * time.Second}, 4, 5 * time.Second},
		{chain.Retry{First: time.Second}, 10_000, 24 * time.Hour},
		{chain.Retry{First: 48 * time.Hour, Max: 72 * time.Hour}, 1, 24 * time.Hour},
	} {
		if got := test.retry.Backoff(test.failed); got != test.want {
			t.Errorf("%+v after %d: %v, want %v", test.retry, test.failed, got, test.want)
		}
	}
}

// Each attempt has its own key, over retries, passes and directions; all calls of one attempt
// share a key.
func TestAKeyIsOneAttempts(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b", Says: "a: again error again ok; b: mismatch mismatch"})
	s.start("r")
	s.settle()
	for _, a := range []chain.Action{chain.Rerun, chain.RestartClean} {
		if err := s.act("r", a); err != nil {
			t.Fatal(err)
		}
		s.settle()
	}
	want := "r/a/1 r/a/1 r/a/2 r/a/2 r/a/3 r/a/4"
	if got := strings.Join(s.script.Keys("a"), " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	if got := strings.Join(s.script.Keys("a/undo"), " "); got != "r/a/undo/1" {
		t.Errorf("keys of undo %s", got)
	}
}

func TestAStageThatWaitsIsAskedAgainUntilItHolds(t *testing.T) {
	looks := 0
	wait := func(context.Context, *chain.Run[chaintest.ScriptState]) error {
		if looks++; looks < 3 {
			return chain.Again(time.Minute, "machine is Deploying")
		}
		return nil
	}
	s := newSetting(t, &chaintest.Script{List: "a"})
	s.engine = newEngine(t, s.store, "one", chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{{Name: "w", Do: wait}}})
	s.start("r")
	if _, err := s.engine.Step(ctx); err != nil {
		t.Fatal(err)
	}
	if r := s.run("r"); r.Waiting != "machine is Deploying" || !r.DueAt.Equal(s.clock.Now().Add(time.Minute)) {
		t.Errorf("waits %q until %v", r.Waiting, r.DueAt)
	}
	s.settle()
	if got := s.story("r"); got != "w:succeeded" || looks != 3 {
		t.Errorf("%s after %d looks", got, looks)
	}
}

// A stage that could not look until its limit fails with the class of the obstacle. A rescue
// fails with the class of its limit.
func TestWhatKeepsAStageFromLookingIsWhatItFailsOf(t *testing.T) {
	blind := func(context.Context, *chain.Run[chaintest.ScriptState]) error {
		return chain.AgainFor("power", 30*time.Second, "no answer")
	}
	fails := func(context.Context, *chain.Run[chaintest.ScriptState]) error {
		return chain.Fail("deploy", "it fell over")
	}
	limit := func(chaintest.ScriptState) chain.Limit {
		return chain.Limit{After: time.Minute, Class: "mismatch", Code: "too_late"}
	}
	type stage = chain.Stage[chaintest.ScriptState]
	for name, row := range map[string]struct {
		stages []stage
		class  chain.Class
		code   string
	}{
		"a stage":  {[]stage{{Name: "a", Do: blind, Limit: limit}}, "power", "timed_out"},
		"a rescue": {[]stage{{Name: "a", Do: fails, Rescue: []stage{{Name: "x", Do: blind, Limit: limit, Then: "a"}}}}, "mismatch", "too_late"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t, &chaintest.Script{List: "a"})
			s.engine = newEngine(t, s.store, "one", chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: row.stages})
			s.start("r")
			s.settle()
			if r := s.run("r"); r.Failure == nil || r.Failure.Class != row.class || r.Failure.Code != row.code {
				t.Errorf("%s: %+v", r.Status, r.Failure)
			}
		})
	}
}

// After a failed rescue the original failure is still there: the run stops for a person.
func TestARescueThatFailsIsForAPerson(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b(x>a)", Says: "b: deploy; x: transient transient transient", Retry: chain.Retry{Attempts: 2}})
	s.start("r")
	s.settle()
	if r := s.run("r"); r.Status != chain.FailedManual || r.Failure.Class != "transient" || s.story("r") != "a:succeeded b:failed x:failed x:failed" {
		t.Errorf("%s %+v: %s", r.Status, r.Failure, s.story("r"))
	}
}
