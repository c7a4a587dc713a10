package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// model is a store with brokers that die, operators that act at any moment, and an outside in
// which stages make things. The model knows no engine internals, only the invariants.
type model struct {
	t      *rapid.T
	clock  *chaintest.Clock
	memory *chaintest.Memory
	store  *chaintest.Lossy
	chain  chain.Chain[chaintest.ScriptState]
	engine *chain.Engine

	there   map[string]bool // run/stage: the thing exists
	busy    map[string]bool // run: a step is going on
	directs map[string]chain.Direction
	passed  map[string]bool // run: past the pivot
	beyond  map[string]bool // run: restart_clean has begun to undo stages before the pivot
	calm    bool            // no more faults
	deaths  int
}

const modelRuns = 2

func newModel(t *rapid.T) *model {
	m := &model{t: t, clock: chaintest.NewClock(), there: map[string]bool{}, busy: map[string]bool{}, directs: map[string]chain.Direction{}, passed: map[string]bool{}, beyond: map[string]bool{}}
	m.memory = chaintest.NewMemory(m.clock.Now)
	m.store = &chaintest.Lossy{Store: m.memory, Fate: m.fate, Saved: m.saved}
	b := m.stage("b")
	b.Rescue = []chain.Stage[chaintest.ScriptState]{m.stage("x"), m.stage("y")}
	b.Rescue[0].Undo, b.Rescue[1].Undo, b.Rescue[1].Then = nil, nil, "a"
	c := m.stage("c")
	c.Pivot = true
	d := m.stage("d")
	d.Optional, d.Undo = true, nil
	m.chain = chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[chaintest.ScriptState]{m.stage("a"), b, c, d, m.stage("e")}}
	m.newBroker()
	var starts []chain.Start
	for i := range modelRuns {
		starts = append(starts, chain.Start{ID: fmt.Sprint("r", i), Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{}, Locks: []string{fmt.Sprint("node/", i)}})
	}
	if _, err := m.engine.StartBatch(ctx, chain.Batch{ID: "b", Kind: chaintest.ScriptKind, Site: "dc1", Parallel: rapid.IntRange(1, modelRuns).Draw(t, "parallel")}, starts); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *model) newBroker() {
	m.deaths++
	e, err := chain.New(m.store, chaintest.ScriptClasses, chain.Options{Owner: fmt.Sprint("broker ", m.deaths)}, m.chain)
	if err != nil {
		m.t.Fatal(err)
	}
	m.engine = e
}

// stage makes a thing or takes it away, and returns a random outcome before or after that.
func (m *model) stage(name string) chain.Stage[chaintest.ScriptState] {
	type run = *chain.Run[chaintest.ScriptState]
	return chain.Stage[chaintest.ScriptState]{
		Name:  name,
		Retry: func(chaintest.ScriptState) chain.Retry { return chain.Retry{Attempts: 2, First: time.Second} },
		Limit: func(chaintest.ScriptState) chain.Limit {
			return chain.Limit{After: time.Hour, Class: "deploy", Code: "late"}
		},
		Done: func(_ context.Context, r run) (bool, error) { return m.there[r.ID+"/"+name], nil },
		Do: func(_ context.Context, r run) error {
			defer m.enter(r.ID)()
			if m.there[r.ID+"/"+name] {
				m.t.Fatalf("%s of %s is made twice", name, r.ID)
			}
			return m.says(func() { m.there[r.ID+"/"+name] = true })
		},
		Undo: func(_ context.Context, r run) error {
			defer m.enter(r.ID)()
			if m.passed[r.ID] && name <= "c" {
				if !m.beyond[r.ID] && !m.read(r.ID).Progress.Restart {
					m.t.Fatalf("%s of %s is taken back past the pivot", name, r.ID)
				}
				m.beyond[r.ID] = true
			}
			return m.says(func() { m.there[r.ID+"/"+name] = false })
		},
	}
}

func (m *model) enter(id string) func() {
	if m.busy[id] {
		m.t.Fatalf("two steps of %s at once", id)
	}
	m.busy[id] = true
	if !m.calm && rapid.IntRange(0, 3).Draw(m.t, "an operator acts meanwhile") == 0 {
		m.Act(m.t)
	}
	return func() { m.busy[id] = false }
}

func (m *model) says(work func()) error {
	what := "ok"
	if !m.calm {
		what = rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "again", "transient", "mismatch", "deploy", "input", "hold", "error", "panic"}).Draw(m.t, "stage says")
	}
	if what == "ok" || rapid.Bool().Draw(m.t, "but did it") {
		work()
	}
	switch what {
	case "ok":
		return nil
	case "again":
		return chain.Again(30*time.Second, "not yet")
	case "hold":
		return chain.Hold("no answer")
	case "error":
		return errors.New("reset")
	case "panic":
		panic("oh")
	}
	return chain.Fail(what, "it is %s", what)
}

func (m *model) fate(int) chaintest.Fate {
	if m.calm {
		return chaintest.Done
	}
	fate := rapid.SampledFrom([]chaintest.Fate{chaintest.Done, chaintest.Done, chaintest.Done, chaintest.Done, chaintest.Done, chaintest.Lost, chaintest.Mute}).Draw(m.t, "fate")
	return fate
}

// saved checks two rules: no operator's request loses a step in flight, and only restart_clean
// turns a run forward again.
func (m *model) saved(c chain.Change, err error) {
	if errors.Is(err, chain.ErrLost) {
		m.t.Fatalf("a step in flight of %s was lost", c.Record.ID)
	}
	r := c.Record
	if was := m.directs[r.ID]; was == chain.Undo && r.Direction == chain.Forward && r.Stage != "a" {
		m.t.Fatalf("%s went forward again at %s", r.ID, r.Stage)
	}
	m.directs[r.ID] = r.Direction
	if r.Direction == chain.Forward {
		m.beyond[r.ID] = false
	}
}

// Step lets a broker do one step; the broker may die in it.
func (m *model) Step(*rapid.T) {
	_, err := m.engine.Step(ctx)
	switch {
	case errors.Is(err, chaintest.ErrKilled):
		m.newBroker()
	case err != nil:
		m.t.Fatal(err)
	}
}

// Wait lets time pass, until a run is due or longer.
func (m *model) Wait(t *rapid.T) {
	next, err := m.store.NextDue(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.clock.AdvanceTo(next)
	m.clock.Advance(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 100, 4000}).Draw(t, "seconds more")) * time.Second)
}

// Act has an operator do anything to any run.
func (m *model) Act(t *rapid.T) {
	id := fmt.Sprint("r", rapid.IntRange(0, modelRuns-1).Draw(t, "run"))
	action := rapid.SampledFrom(chain.Actions).Draw(t, "action")
	before := m.read(id)
	after, err := m.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: action, Reason: "because"})
	if _, no := errors.AsType[*chain.Refused](err); err != nil && !no {
		t.Fatal(err)
	} else if no {
		if now := m.read(id); now.Version != before.Version || now.Asked != before.Asked {
			t.Fatalf("%s was refused and changed %s", action, id)
		}
		return
	}
	if before.Direction == chain.Undo && after.Direction == chain.Forward {
		t.Fatalf("%s turned %s forward", action, id)
	}
	if before.InFlight(m.clock.Now()) && after.Version != before.Version {
		t.Fatalf("%s went past the step in flight of %s", action, id)
	}
}

// Freeze places or lifts a freeze.
func (m *model) Freeze(t *rapid.T) {
	site := rapid.SampledFrom([]string{"", "dc1", "dc2"}).Draw(t, "site")
	var err error
	if rapid.Bool().Draw(t, "freeze") {
		err = m.store.PlaceHold(ctx, ada, chain.SiteHold{Site: site, Kind: chain.Freeze})
	} else {
		err = m.store.LiftHold(ctx, ada, site, chain.Freeze, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *model) read(id string) chain.Record {
	r, err := m.memory.Run(ctx, id)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// Check holds the invariants at every moment.
func (m *model) Check(t *rapid.T) {
	for i := range modelRuns {
		m.truthful(t, m.read(fmt.Sprint("r", i)))
	}
}

func (m *model) truthful(t *rapid.T, r chain.Record) {
	var made []string
	for _, stage := range []string{"a", "b", "c", "d", "e"} {
		if m.there[r.ID+"/"+stage] {
			made = append(made, stage)
		}
	}
	events, err := m.memory.Events(ctx, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	passed := false // since the last complete undo
	for _, e := range events {
		switch {
		case e.Stage == "c" && (e.Status == chain.Succeeded || e.Status == chain.Skipped):
			passed = true
		case e.Stage == "a" && e.Status == chain.Compensated:
			passed = false
		}
	}
	m.passed[r.ID] = passed
	if r.Progress.Restart && r.Progress.Touched && r.Direction == chain.Undo && r.Stage <= "c" {
		m.beyond[r.ID] = true // claimed for it, at least
	}
	switch r.Status {
	case chain.Completed, chain.Reconciled:
		for _, stage := range []string{"a", "b", "c", "e"} {
			if !slices.Contains(made, stage) {
				t.Fatalf("%s is %s without %s: %v", r.ID, r.Status, stage, chaintest.Story(events))
			}
		}
	case chain.Cancelled:
		left := slices.DeleteFunc(slices.Clone(made), func(s string) bool { return s == "d" || passed && s < "d" })
		if len(left) > 0 {
			t.Fatalf("%s is cancelled and left %v: %v", r.ID, left, chaintest.Story(events))
		}
	case chain.FailedManual, chain.FailedRetryable:
		if r.Failure == nil || r.NextAction == "" {
			t.Fatalf("%s is %s and does not say why", r.ID, r.Status)
		}
	}
	if r.Status.Ended() == r.CompletedAt.IsZero() {
		t.Fatalf("%s is %s, completed at %v", r.ID, r.Status, r.CompletedAt)
	}
	if (r.Status == chain.Compensating) != (r.Direction == chain.Undo && r.Status.Moving()) {
		t.Fatalf("%s is %s and goes %s", r.ID, r.Status, r.Direction)
	}
}

// settle ends all faults, lifts all freezes, and has the operator help until each run has ended.
func (m *model) settle() {
	m.calm = true
	for _, site := range []string{"", "dc1", "dc2"} {
		if err := m.store.LiftHold(ctx, ada, site, chain.Freeze, "over"); err != nil {
			m.t.Fatal(err)
		}
	}
	for range 4 {
		if err := chaintest.Settle(ctx, m.engine, m.store, m.clock); err != nil {
			m.t.Fatal(err)
		}
		m.Check(m.t)
		for i := range modelRuns {
			if r := m.read(fmt.Sprint("r", i)); r.Status.Stopped() {
				if _, err := m.engine.Act(ctx, chain.Order{ID: r.ID, Actor: ada, Action: chain.RetryStage}); err != nil {
					m.t.Fatal(err)
				}
			}
		}
	}
	for i := range modelRuns {
		if r := m.read(fmt.Sprint("r", i)); !r.Status.Ended() {
			m.t.Fatalf("%s does not end: it is %s at %s, waits for %q", r.ID, r.Status, r.Stage, r.Waiting)
		}
	}
}

func TestWhateverHappensRunsEndTruthfully(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){"": m.Check, "step": m.Step, "step again": m.Step, "step once more": m.Step, "wait": m.Wait, "act": m.Act, "freeze": m.Freeze})
		m.settle()
	})
}
