package chain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

func TestWhatThisVersionDoesNotKnowStopsForAPerson(t *testing.T) {
	for _, test := range []struct {
		name string
		old  func(c *chain.Chain[chaintest.ScriptState]) chain.Kind
		code string
	}{
		{"a list", func(c *chain.Chain[chaintest.ScriptState]) chain.Kind {
			c.Stages = c.Stages[:1]
			return c
		}, "list_unknown"},
		{"a state", func(c *chain.Chain[chaintest.ScriptState]) chain.Kind {
			return chain.Chain[struct{ Other string }]{Kind: c.Kind, Stages: []chain.Stage[struct{ Other string }]{
				{Name: "a", Do: func(context.Context, *chain.Run[struct{ Other string }]) error { return nil }},
				{Name: "b", Do: func(context.Context, *chain.Run[struct{ Other string }]) error { return nil }},
			}}
		}, "state_unreadable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSetting(t, &chaintest.Script{List: "a b"})
			s.start("r")
			if _, err := s.engine.Step(ctx); err != nil {
				t.Fatal(err)
			}
			newer := s.engine
			c := s.script.Chain()
			s.engine = newEngine(t, s.store, "old", test.old(&c))
			s.clock.Advance(chain.Strange)
			s.settle()
			r := s.run("r")
			if r.Status != chain.FailedManual || r.Failure.Code != test.code || r.NextAction != "look" || string(r.State) != `{"trail":["a"]}` {
				t.Fatalf("it is %+v, %+v", r, r.Failure)
			}
			s.engine = newer
			if err := s.act("r", chain.RetryStage); err != nil {
				t.Fatal(err)
			}
			s.settle()
			if got := s.story("r"); got != "a:succeeded b:failed b:succeeded" {
				t.Error(got)
			}
		})
	}
}

func TestAStartIsRefusedWhole(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	good := chain.Start{Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{}, Locks: []string{"node/n"}}
	if _, err := s.engine.Start(ctx, good); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(*chain.Start)
		want  string
	}{
		{"of a kind that nobody runs", func(s *chain.Start) { s.Kind = "x" }, "runs no such chain"},
		{"without a site", func(s *chain.Start) { s.Site = "" }, "needs a site"},
		{"with another's state", func(s *chain.Start) { s.State = 7 }, "is int, not chaintest.ScriptState"},
		{"with a taken lock", func(*chain.Start) {}, "node/n is held by run r-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad, fine := good, good
			fine.Locks = nil
			test.spoil(&bad)
			_, err := s.engine.StartBatch(ctx, chain.Batch{ID: test.name}, []chain.Start{fine, bad})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v, want %q", err, test.want)
			}
			if all, _ := s.store.Runs(ctx, chain.Filter{}); len(all) != 1 {
				t.Errorf("%d runs", len(all))
			}
		})
	}
}

// A refused request refuses the whole step, and fails the attempt.
func TestARefusedSaveFailsTheAttempt(t *testing.T) {
	for _, test := range []struct {
		name  string
		ask   func(*chain.Run[chaintest.ScriptState])
		class chain.Class
		code  string
		want  string
	}{
		{"a taken lock", func(r *chain.Run[chaintest.ScriptState]) { r.Lock("node/n") }, chain.StateAmbiguity, "locked", "cannot take a lock: node/n is held by run holder"},
		{"an effect", func(r *chain.Run[chaintest.ScriptState]) { r.Apply("bad") }, chain.UpstreamTransient, "upstream_transient", "the hostname is taken"},
		{"an effect, with a class", func(r *chain.Run[chaintest.ScriptState]) { r.Apply("worse") }, "mismatch", "mismatch", "two machines"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSetting(t, &chaintest.Script{List: "a"})
			var applied []string
			s.store.Apply = func(e any) error {
				switch e {
				case "bad":
					return errors.New("the hostname is taken")
				case "worse":
					return chain.Fail("mismatch", "two machines")
				}
				applied = append(applied, e.(string))
				return nil
			}
			c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{{Name: "w", Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
				test.ask(r)
				r.Publish(chain.Message{Type: "x"})
				r.State.Trail = append(r.State.Trail, "kept")
				return nil
			}}}}
			if _, err := s.engine.Start(ctx, chain.Start{ID: "holder", Kind: chaintest.ScriptKind, Site: "dc9", State: chaintest.ScriptState{}, Locks: []string{"node/n"}}); err != nil {
				t.Fatal(err)
			}
			if err := s.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc9", Kind: chain.Freeze}); err != nil {
				t.Fatal(err)
			}
			s.engine = newEngine(t, s.store, "one", c)
			s.start("r")
			s.settle()
			r := s.run("r")
			if r.Failure == nil || r.Failure.Class != test.class || r.Failure.Code != test.code || !strings.Contains(r.Failure.Message, test.want) {
				t.Errorf("failed with %+v", r.Failure)
			}
			if string(r.State) != `{"trail":["kept"]}` || len(applied) > 0 {
				t.Errorf("state %s, applied %v", r.State, applied)
			}
			for _, m := range s.store.Outbox() {
				if m.Type == "x" {
					t.Error("its message was sent")
				}
			}
		})
	}
}

// A lock that a stage takes belongs to its run until the run ends.
func TestALockTakenOnTheWayHoldsOthersOff(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{
		{Name: "a", Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
			r.Lock("node/n")
			return nil
		}},
		{Name: "b", Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
			if r.Attempt == 1 {
				return chain.Fail("mismatch", "no")
			}
			return nil
		}},
	}}
	s.engine = newEngine(t, s.store, "one", c)
	s.start("r")
	s.settle()
	next := chain.Start{Kind: c.Kind, Site: "dc1", State: chaintest.ScriptState{}, Locks: []string{"node/n"}}
	_, err := s.engine.Start(ctx, next)
	if l, ok := errors.AsType[*chain.Locked](err); !ok || l.Taken[0].Run != "r" {
		t.Fatalf("%v", err)
	}
	if err := s.act("r", chain.RetryStage); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if _, err := s.engine.Start(ctx, next); err != nil {
		t.Error(err)
	}
}

// Whatever a machine or a service returns, a row stays readable and small.
func TestWhatIsKeptOfAFailureIsBounded(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a"})
	long := strings.Repeat("é\x1b[31m\x00\xff", 5000)
	details := map[string]any{"console": long}
	c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{
		{Name: "w", Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
			switch r.EnteredAt.Equal(r.Now) {
			case true:
				return chain.Again(time.Second, "%s", long)
			}
			return fmt.Errorf("cannot deploy: %w", chain.Fail("mismatch", "%s", long).With("odd", details))
		}},
	}}
	s.engine = newEngine(t, s.store, "one", c)
	s.start("r")
	check := func(what, text string, most int) {
		t.Helper()
		if len(text) == 0 || len(text) > most || !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\x00") {
			t.Errorf("%s: %d bytes, %.40q", what, len(text), text)
		}
	}
	if _, err := s.engine.Step(ctx); err != nil {
		t.Fatal(err)
	}
	check("why it waits", s.run("r").Waiting, 500)
	s.settle()
	r := s.run("r")
	check("message", r.Failure.Message, 2000)
	check("details", string(r.Failure.Details), 8000)
	if !strings.HasPrefix(r.Failure.Message, "cannot deploy: ") || r.Failure.Code != "odd" || !json.Valid(r.Failure.Details) {
		t.Errorf("%+v", r.Failure)
	}
	events, _ := s.store.Events(ctx, "r")
	check("the event", events[1].Message, 2000)
	check("its details", string(events[1].Details), 8000)
}

// A panic in any function of a chain stops no broker, and the run says why it stopped.
func TestNoFunctionOfAChainTakesTheBrokerDown(t *testing.T) {
	type run = *chain.Run[chaintest.ScriptState]
	for _, test := range []struct {
		name   string
		stage  chain.Stage[chaintest.ScriptState]
		status chain.Status
		code   string
	}{
		{"Limit panics", chain.Stage[chaintest.ScriptState]{Limit: func(chaintest.ScriptState) chain.Limit { panic("oh") }}, chain.FailedManual, "stage_panicked"},
		{"Retry panics", chain.Stage[chaintest.ScriptState]{Do: func(context.Context, run) error { return errors.New("no") }, Retry: func(chaintest.ScriptState) chain.Retry { panic("oh") }}, chain.FailedManual, "stage_panicked"},
		{"Done panics", chain.Stage[chaintest.ScriptState]{Done: func(context.Context, run) (bool, error) { panic("oh") }}, chain.FailedRetryable, "stage_panicked"},
		{"a nil failure", chain.Stage[chaintest.ScriptState]{Do: func(context.Context, run) error {
			var none *chain.Failure
			return none
		}}, chain.Completed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSetting(t, &chaintest.Script{List: "a"})
			test.stage.Name = "w"
			if test.stage.Do == nil {
				test.stage.Do = nop
			}
			s.engine = newEngine(t, s.store, "one", chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{test.stage}})
			s.start("r")
			s.settle()
			r := s.run("r")
			if r.Status != test.status || test.code != "" && r.Failure.Code != test.code {
				t.Errorf("%s: %+v", r.Status, r.Failure)
			}
		})
	}
}

// unsaved is a store that loses the first saves.
type unsaved struct {
	chain.Store
	left int
}

func (u *unsaved) Save(ctx context.Context, c chain.Change) error {
	if u.left == 0 {
		return u.Store.Save(ctx, c)
	}
	u.left--
	return chaintest.ErrKilled
}

// A stage that kills the broker each time is not called for ever.
func TestAStageWhoseEndIsNeverHeardOfStopsForAPerson(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b"})
	store := &unsaved{s.store, 6}
	s.engine = newEngine(t, store, "one", s.script.Chain())
	s.start("r")
	s.settle()
	if r := s.run("r"); r.Status != chain.FailedManual || r.Failure.Code != "step_lost" || len(s.script.Calls()) != 6 {
		t.Fatalf("%s after %d calls: %+v", r.Status, len(s.script.Calls()), r.Failure)
	}
	if err := s.act("r", chain.RetryStage); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got := s.story("r"); got != "a:failed a:succeeded b:succeeded" {
		t.Error(got)
	}
}

// Only the failed runs of a batch are retried; the stopped batch continues.
func TestABatchIsRetriedByItsFailedRuns(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a", Says: "a: ok mismatch mismatch"})
	var starts []chain.Start
	for i := range 5 {
		starts = append(starts, chain.Start{ID: fmt.Sprint("r", i), Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{}})
	}
	if _, err := s.engine.StartBatch(ctx, chain.Batch{ID: "b", Kind: chaintest.ScriptKind, Site: "dc1", Parallel: 1, StopAfter: 2}, starts); err != nil {
		t.Fatal(err)
	}
	s.settle()
	statuses := func() (out string) {
		all, err := s.store.Runs(ctx, chain.Filter{Batch: "b"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			out += string(r.Status)[:1]
		}
		return out
	}
	if got := statuses(); got != "cffpp" {
		t.Fatalf("statuses %s", got)
	}
	failed, err := s.store.Runs(ctx, chain.Filter{Batch: "b", Statuses: []chain.Status{chain.FailedRetryable, chain.FailedManual}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range failed {
		if err := s.act(r.ID, chain.RetryStage); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.engine.ContinueBatch(ctx, chain.Order{ID: "b", Actor: ada, Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got := statuses(); got != "ccccc" || s.story("r0") != "a:succeeded" || s.story("r1") != "a:failed a:succeeded" {
		t.Errorf("statuses %s", got)
	}
}
