package chain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

var (
	ctx = context.Background()
	ada = chain.Actor{Name: "ada", Role: "operator"}
)

// setting is a store in memory, an engine, and the script that the engine runs.
type setting struct {
	t      *testing.T
	clock  *chaintest.Clock
	store  *chaintest.Memory
	script *chaintest.Script
	engine *chain.Engine
}

func newSetting(t *testing.T, script *chaintest.Script) *setting {
	t.Helper()
	s := &setting{t: t, clock: chaintest.NewClock(), script: script}
	s.store = chaintest.NewMemory(s.clock.Now)
	if script.Retry.Attempts == 0 {
		script.Retry = chain.Retry{Attempts: 3, First: 10 * time.Second, Max: time.Minute}
	}
	s.engine = newEngine(t, s.store, "one", script.Chain())
	return s
}

func newEngine(t testing.TB, store chain.Store, owner string, chains ...chain.Kind) *chain.Engine {
	t.Helper()
	e, err := chain.New(store, chaintest.ScriptClasses, chain.Options{Owner: owner}, chains...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (s *setting) start(id string) {
	s.t.Helper()
	if _, err := s.engine.Start(ctx, chain.Start{ID: id, Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *setting) settle() {
	s.t.Helper()
	if err := chaintest.Settle(ctx, s.engine, s.store, s.clock); err != nil {
		s.t.Fatal(err)
	}
}

func (s *setting) act(id string, a chain.Action) error {
	_, err := s.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"})
	return err
}

func (s *setting) run(id string) chain.Record {
	s.t.Helper()
	r, err := s.store.Run(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *setting) story(id string) string {
	s.t.Helper()
	events, err := s.store.Events(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return chaintest.Story(events)
}

// One line for each behaviour. acts are an operator's: "b cancel" while stage b is being called,
// "- resume" when the run has stopped.
var stories = []struct {
	name, list, says, acts string
	story                  string
	ends                   chain.Status
}{
	{name: "the happy path", list: "a b c", story: "a:succeeded b:succeeded c:succeeded", ends: chain.Completed},
	{name: "already so", list: "a b c", says: "b: done", story: "a:succeeded b:skipped c:succeeded", ends: chain.Completed},
	{name: "waiting is no event", list: "a b", says: "b: again again again again", story: "a:succeeded b:succeeded", ends: chain.Completed},
	{name: "a failure is retried", list: "a b", says: "a: transient transient", story: "a:failed a:failed a:succeeded b:succeeded", ends: chain.Completed},
	{name: "an unclassified error is transient", list: "a", says: "a: error", story: "a:failed a:succeeded", ends: chain.Completed},
	{name: "a panic is transient", list: "a", says: "a: panic", story: "a:failed a:succeeded", ends: chain.Completed},
	{name: "attempts are bounded", list: "a b", says: "a: transient error transient", story: "a:failed a:failed a:failed", ends: chain.FailedRetryable},
	{name: "bounded, then a person's", list: "a b", says: "a: power power power", story: "a:failed a:failed a:failed", ends: chain.FailedManual},
	{name: "not retried", list: "a b", says: "a: input", story: "a:failed", ends: chain.FailedRetryable},
	{name: "a person's at once", list: "a b", says: "a: mismatch", story: "a:failed", ends: chain.FailedManual},
	{name: "a class that nobody knows is a person's", list: "a b", says: "a: gremlins", story: "a:failed", ends: chain.FailedManual},
	{name: "optional", list: "a b? c", says: "b: mismatch", story: "a:succeeded b:failed c:succeeded", ends: chain.Completed},
	{name: "optional is retried first", list: "a b? c", says: "b: transient transient transient", story: "a:succeeded b:failed b:failed b:failed c:succeeded", ends: chain.Completed},
	{name: "a site away costs no attempt", list: "a b", says: "a: hold hold hold hold hold", story: "a:succeeded b:succeeded", ends: chain.Completed},

	{name: "rescued", list: "a b c(x y>b) d", says: "c: deploy", story: "a:succeeded b:succeeded c:failed x:succeeded y:succeeded b:succeeded c:succeeded d:succeeded", ends: chain.Completed},
	{name: "rescued when attempts are spent", list: "a b(x>a) c", says: "b: transient transient transient", story: "a:succeeded b:failed b:failed b:failed x:succeeded a:succeeded b:succeeded c:succeeded", ends: chain.Completed},
	{name: "a class that no rescue helps", list: "a b(x>a) c", says: "b: mismatch", story: "a:succeeded b:failed", ends: chain.FailedManual},
	{name: "the rescue says no", list: "a b(x>a) c", says: "b: deploy; x: deploy", story: "a:succeeded b:failed x:failed", ends: chain.FailedManual},
	{name: "the rescue is bounded by itself", list: "a b(x>a)", says: "b: deploy deploy; x: ok mismatch", story: "a:succeeded b:failed x:succeeded a:succeeded b:failed x:failed", ends: chain.FailedManual},

	{name: "cancelled before it began", list: "a b", acts: "0 cancel", story: "", ends: chain.Cancelled},
	{name: "cancelled in flight", list: "a b c d", acts: "b cancel", story: "a:succeeded b:succeeded c:compensated b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled while it waits", list: "a b c", says: "b: again again again again", acts: "b cancel", story: "a:succeeded b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled as the step fails", list: "a b c", says: "b: mismatch", acts: "b cancel", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled as the last step succeeds", list: "a b", acts: "b cancel", story: "a:succeeded b:succeeded :skipped", ends: chain.Completed},
	{name: "cancelled when it has failed", list: "a b c", says: "b: mismatch", acts: "- cancel", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled with a stage that has no undo", list: "a b- c", says: "c: mismatch", acts: "- cancel", story: "a:succeeded b:succeeded c:failed c:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled with nothing to undo", list: "a- b- c-", says: "b: mismatch", acts: "- cancel", story: "a:succeeded b:failed", ends: chain.Cancelled},
	{name: "cancelled at the pivot", list: "a b! c", says: "b: mismatch", acts: "- cancel", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancelled after the pivot", list: "a b! c d", says: "d: mismatch", acts: "- cancel", story: "a:succeeded b:succeeded c:succeeded d:failed d:compensated c:compensated", ends: chain.Cancelled},
	{name: "cancelled in the rescue of the pivot", list: "a b!(x y>a) c", says: "b: deploy; y: mismatch", acts: "- cancel", story: "a:succeeded b:failed x:succeeded y:failed y:compensated x:compensated b:compensated a:compensated", ends: chain.Cancelled},
	{name: "a stage without undo between it and the pivot", list: "a b! c- d", says: "d: mismatch", acts: "- cancel", story: "a:succeeded b:succeeded c:succeeded d:failed d:compensated", ends: chain.Cancelled},
	{name: "an undo waits", list: "a b", says: "b: mismatch; a/undo: again again", acts: "- cancel", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "an undo is retried", list: "a b", says: "b: mismatch; b/undo: transient transient", acts: "- cancel", story: "a:succeeded b:failed b/undo:failed b/undo:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "an undo that fails is never cancelled", list: "a b", says: "b: mismatch; b/undo: mismatch", acts: "- cancel", story: "a:succeeded b:failed b/undo:failed", ends: chain.FailedManual},
	{name: "a failed undo is retried and never resumes forwards", list: "a b", says: "b: mismatch; b/undo: mismatch", acts: "- cancel - resume! - rerun! - retry_stage", story: "a:succeeded b:failed b/undo:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "undo starts at what an earlier pass reached", list: "a b c", says: "c: mismatch; a: ok mismatch", acts: "- rerun - cancel", story: "a:succeeded b:succeeded c:failed a:failed c:compensated b:compensated a:compensated", ends: chain.Cancelled},
	{name: "a pivot that an earlier pass went by", list: "a b! c", says: "c: mismatch; a: ok mismatch", acts: "- rerun - cancel", story: "a:succeeded b:succeeded c:failed a:failed c:compensated", ends: chain.Cancelled},
	{name: "a pivot that is to be passed again", list: "a b c! d", says: "d: mismatch; b: ok anew; c: ok mismatch", acts: "- rerun - cancel", story: "a:succeeded b:succeeded c:succeeded d:failed a:succeeded b:succeeded c:failed c:compensated b:compensated a:compensated", ends: chain.Cancelled},
	{name: "a pivot that is passed again", list: "a b c! d", says: "d: mismatch mismatch; b: ok anew", acts: "- rerun - cancel", story: "a:succeeded b:succeeded c:succeeded d:failed a:succeeded b:succeeded c:succeeded d:failed d:compensated", ends: chain.Cancelled},

	{name: "retry_stage", list: "a b", says: "a: transient transient transient transient", acts: "- retry_stage", story: "a:failed a:failed a:failed a:failed a:succeeded b:succeeded", ends: chain.Completed},
	{name: "retry_stage stays in the rescue", list: "a b(x y>a)", says: "b: deploy; y: mismatch", acts: "- retry_stage", story: "a:succeeded b:failed x:succeeded y:failed y:succeeded a:succeeded b:succeeded", ends: chain.Completed},
	{name: "resume leaves the rescue", list: "a b(x y>a)", says: "b: deploy; y: mismatch", acts: "- resume", story: "a:succeeded b:failed x:succeeded y:failed b:succeeded", ends: chain.Completed},
	{name: "rerun", list: "a b c", says: "c: mismatch; a: ok done", acts: "- rerun", story: "a:succeeded b:succeeded c:failed a:skipped b:succeeded c:succeeded", ends: chain.Completed},
	{name: "restart_clean goes past the pivot", list: "a b! c", says: "c: mismatch", acts: "- restart_clean", story: "a:succeeded b:succeeded c:failed c:compensated b:compensated a:compensated a:succeeded b:succeeded c:succeeded", ends: chain.Completed},
	{name: "restart_clean out of a failed undo", list: "a b", says: "b: mismatch; b/undo: mismatch", acts: "- cancel - restart_clean", story: "a:succeeded b:failed b/undo:failed b:compensated a:compensated a:succeeded b:succeeded", ends: chain.Completed},
	{name: "cancel out of a failed restart_clean", list: "a b", says: "b: mismatch; b/undo: mismatch", acts: "- restart_clean - cancel", story: "a:succeeded b:failed b/undo:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancel while restart_clean takes back", list: "a b", says: "b: mismatch", acts: "- restart_clean b/undo cancel", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancel before restart_clean goes past the pivot", list: "a b! c", says: "c: mismatch", acts: "- restart_clean c/undo cancel", story: "a:succeeded b:succeeded c:failed c:compensated", ends: chain.Cancelled},
	{name: "cancel when restart_clean is past the pivot", list: "a b! c", says: "c: mismatch", acts: "- restart_clean b/undo cancel", story: "a:succeeded b:succeeded c:failed c:compensated b:compensated a:compensated", ends: chain.Cancelled},
	{name: "cancel as the last undo of restart_clean fails", list: "a b", says: "b: mismatch; a/undo: mismatch", acts: "- restart_clean a/undo cancel", story: "a:succeeded b:failed b:compensated a/undo:failed a:compensated", ends: chain.Cancelled},
	{name: "adopted", list: "a b c", says: "b: mismatch done", acts: "- adopt_observed_state", story: "a:succeeded b:failed b:skipped c:succeeded", ends: chain.Reconciled},
	{name: "marked while a step is in flight", list: "a b c", acts: "b mark_manual_intervention_required", story: "a:succeeded b:succeeded", ends: chain.FailedManual},
	{name: "marked, then resumed", list: "a b", acts: "a mark_manual_intervention_required - resume", story: "a:succeeded b:succeeded", ends: chain.Completed},
	{name: "marked when it could be retried", list: "a b", says: "a: input", acts: "- mark_manual_intervention_required", story: "a:failed", ends: chain.FailedManual},
	{name: "marked while it takes back, then retried", list: "a b", says: "b: mismatch", acts: "- cancel b/undo mark_manual_intervention_required - resume! - retry_stage", story: "a:succeeded b:failed b:compensated a:compensated", ends: chain.Cancelled},
}

func TestStories(t *testing.T) {
	for _, test := range stories {
		t.Run(test.name, func(t *testing.T) {
			acts := strings.Fields(test.acts)
			s := newSetting(t, &chaintest.Script{List: test.list, Says: test.says})
			// act does the next action if its moment has come; ! says that the action is to be
			// refused. Each action is sent twice, without further effect.
			act := func(moment string) bool {
				if len(acts) == 0 || acts[0] != moment {
					return false
				}
				what, no := strings.CutSuffix(acts[1], "!")
				acts = acts[2:]
				err := s.act("r", chain.Action(what))
				if (err != nil) != no {
					t.Errorf("%s: %v", what, err)
				}
				if err := s.act("r", chain.Action(what)); (err != nil) != no {
					t.Errorf("%s once more: %v", what, err)
				}
				return true
			}
			s.script.During = func(_ context.Context, stage string) { act(stage) }
			s.start("r")
			act("0")
			for s.settle(); act("-"); {
				s.settle()
			}
			if got := s.story("r"); got != test.story {
				t.Errorf("story\n  %s\nwant\n  %s", got, test.story)
			}
			if r := s.run("r"); r.Status != test.ends || len(acts) > 0 {
				t.Errorf("ends %s, want %s; not done: %v", r.Status, test.ends, acts)
			}
		})
	}
}
