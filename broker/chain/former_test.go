package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// of is a scripted chain with the given list and former lists.
func of(list string, former ...string) chain.Chain[chaintest.ScriptState] {
	c := (&chaintest.Script{List: list}).Chain()
	for _, f := range former {
		c.Former = append(c.Former, (&chaintest.Script{List: f}).Chain().Stages)
	}
	return c
}

// step executes one step of an engine, and reports whether a run was due.
func (s *setting) step(e *chain.Engine) bool {
	s.t.Helper()
	worked, err := e.Step(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return worked
}

func TestARunKeepsTheListThatItBeganWith(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b d"})
	s.start("r")
	s.step(s.engine)
	// The next release has another stage, and no d any more.
	s.engine = newEngine(t, s.store, "next", of("a b c", "a b d"))
	s.start("later")
	s.settle()
	for id, want := range map[string]string{"r": "a:succeeded b:succeeded d:succeeded", "later": "a:succeeded b:succeeded c:succeeded"} {
		if got := s.story(id); got != want || s.run(id).Status != chain.Completed {
			t.Errorf("%s: %s, and is %s, want %s", id, got, s.run(id).Status, want)
		}
	}
}

func TestThePlanOfARunIsTheListThatItBeganWith(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b d"})
	s.start("r")
	next := newEngine(t, s.store, "next", of("a b c", "a b d"))
	without := newEngine(t, s.store, "without", of("a b c"))
	r := s.run("r")
	stranger := r
	stranger.Kind, stranger.List = "some.other", "some.other"
	for name, row := range map[string]struct {
		plan []chain.Planned
		want string
	}{
		"a list of an earlier release":       {next.Plan(r), "a b d"},
		"a list that the release is without": {without.Plan(r), "a b c"},
		"a kind that nobody knows":           {next.Plan(stranger), ""},
	} {
		var got []string
		for _, p := range row.plan {
			got = append(got, p.Stage)
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestATakingBackFollowsTheListThatTheRunBeganWith(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b d"})
	s.start("r")
	s.step(s.engine)
	s.step(s.engine)
	s.engine = newEngine(t, s.store, "next", of("a c", "a b d"))
	if err := s.act("r", chain.Cancel); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if got := s.story("r"); got != "a:succeeded b:succeeded d:compensated b:compensated a:compensated" || s.run("r").Status != chain.Cancelled {
		t.Errorf("%s, and is %s", got, s.run("r").Status)
	}
}

func TestReplicasOfTwoReleasesLeaveEachOthersRuns(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b"})
	older := s.engine
	newer := newEngine(t, s.store, "newer", of("a x b", "a b"))
	s.start("old")
	s.engine = newer
	s.start("new")
	for s.step(older) {
	}
	if got := s.story("old"); got != "a:succeeded b:succeeded" {
		t.Errorf("the older one's run: %s", got)
	}
	if got := s.run("new"); got.Status != chain.Pending {
		t.Fatalf("the older replica has touched what it does not know: %+v", got)
	}
	s.step(newer)
	if s.step(older) { // nor during the run
		t.Fatalf("the older replica goes on with %+v", s.run("new"))
	}
	_, err := older.Act(ctx, chain.Order{ID: "new", Actor: ada, Action: chain.Cancel})
	if no, refused := errors.AsType[*chain.Refused](err); !refused || no.Code != "list_unknown" {
		t.Errorf("an action by who does not know the list: %v", err)
	}
	for s.step(newer) {
	}
	if got := s.story("new"); got != "a:succeeded x:succeeded b:succeeded" {
		t.Errorf("the newer one's run: %s", got)
	}
}

func TestARunFromBeforeListsWereKeptGoesByTheOneInForce(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b"})
	now := s.store.Now()
	for _, stage := range []string{"a", "z"} {
		r := chain.Record{
			ID: "r-" + stage, Kind: chaintest.ScriptKind, Site: "dc1", Status: chain.Pending, Stage: stage, Direction: chain.Forward, Attempt: 1, State: []byte(`{"trail":null}`),
			Progress: chain.Progress{Reached: stage, Tries: map[string]int{stage: 1}}, DueAt: now, RequestedBy: "ada", RequestedAt: now,
		}
		if err := s.store.Insert(ctx, []chain.NewRun{{Record: r}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.settle()
	if got := s.story("r-a"); got != "a:succeeded b:succeeded" {
		t.Error(got)
	}
	if r := s.run("r-z"); r.Status != chain.FailedManual || r.Failure.Code != "stage_unknown" {
		t.Errorf("at a stage that is not in it: %+v, %+v", r, r.Failure)
	}
}

func TestOneListTwiceIsNoChain(t *testing.T) {
	if _, err := chain.New(chaintest.NewMemory(chaintest.NewClock().Now), chaintest.ScriptClasses, chain.Options{}, of("a b", "a b")); err == nil {
		t.Error("taken")
	}
}

// wider is the state of the next release, with a field that this release cannot read.
type wider struct {
	Trail []string `json:"trail"`
	Mood  string   `json:"mood,omitempty"`
}

// ofWider is a chain over wider with the same list.
func ofWider(form int, stages ...string) chain.Chain[wider] {
	c := chain.Chain[wider]{Kind: chaintest.ScriptKind, Form: form}
	for _, name := range stages {
		c.Stages = append(c.Stages, chain.Stage[wider]{Name: name, Do: func(_ context.Context, r *chain.Run[wider]) error {
			r.State.Mood = "good"
			return nil
		}})
	}
	return c
}

// A run whose state a newer release has written is left to brokers of that release, like a run of
// an unknown list.
func TestReplicasOfTwoReleasesLeaveEachOthersStates(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b c"})
	older := s.engine
	newer := newEngine(t, s.store, "newer", ofWider(1, "a", "b", "c"))
	s.start("old")
	list := s.run("old").List
	s.step(older)
	s.step(newer) // the newer engine continues the run, and writes a state that the older cannot read
	if got := s.run("old"); got.List == list || !strings.Contains(string(got.State), "mood") {
		t.Fatalf("the newer one leaves it as %+v", got)
	}
	s.engine = newer
	if _, err := newer.Start(ctx, chain.Start{ID: "new", Kind: chaintest.ScriptKind, Site: "dc1", State: wider{}}); err != nil {
		t.Fatal(err)
	}
	if s.step(older) {
		t.Fatalf("the older replica has touched %+v or %+v", s.run("old"), s.run("new"))
	}
	if _, err := older.Act(ctx, chain.Order{ID: "old", Actor: ada, Action: chain.MarkManual, Reason: "no"}); err == nil {
		t.Error("the older one acts on what it cannot read")
	}
	for s.step(newer) {
	}
	for _, id := range []string{"old", "new"} {
		if got := s.story(id); got != "a:succeeded b:succeeded c:succeeded" || s.run(id).Status != chain.Completed {
			t.Errorf("%s: %s, and is %s", id, got, s.run(id).Status)
		}
	}
}

// If no broker can read the state, the run is stopped for a person and keeps its own list.
func TestAStateThatNobodyKnowsKeepsItsListWhenItIsStopped(t *testing.T) {
	s := newSetting(t, &chaintest.Script{List: "a b"})
	older := s.engine
	newer := newEngine(t, s.store, "newer", ofWider(1, "a", "b"))
	s.start("r")
	s.step(newer)
	list := s.run("r").List
	s.clock.Advance(chain.Strange)
	s.step(older)
	if got := s.run("r"); got.Status != chain.FailedManual || got.Failure.Code != "list_unknown" || got.List != list {
		t.Fatalf("%+v, %+v", got, got.Failure)
	}
	s.engine = newer
	if err := s.act("r", chain.Resume); err != nil {
		t.Fatal(err)
	}
	for s.step(newer) {
	}
	if got := s.run("r"); got.Status != chain.Completed {
		t.Errorf("%+v", got)
	}
}
