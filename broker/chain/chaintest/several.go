package chaintest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// Several runs engines side by side, one for each store, all of one database. It checks that each
// stage is done once, and that no two steps of a run overlap. The clocks are real.
func Several(t *testing.T, runs int, stores ...chain.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := &once{busy: map[string]bool{}, done: map[string]int{}}
	c := chain.Chain[ScriptState]{Kind: ScriptKind}
	for _, name := range []string{"a", "b", "c"} {
		c.Stages = append(c.Stages, o.stage(name))
	}
	var engines []*chain.Engine
	for i, s := range stores {
		e, err := chain.New(s, ScriptClasses, chain.Options{Owner: fmt.Sprint("broker ", i), Workers: 4, Poll: 50 * time.Millisecond}, c)
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	var starts []chain.Start
	for i := range runs {
		starts = append(starts, chain.Start{ID: fmt.Sprintf("r%03d", i), Kind: ScriptKind, Site: "dc1", State: ScriptState{}})
	}
	const parallel = 5
	if _, err := engines[0].StartBatch(ctx, chain.Batch{ID: "b", Kind: ScriptKind, Site: "dc1", Parallel: parallel}, starts); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, e := range engines {
		running.Go(func() { e.Run(ctx) })
	}
	for deadline := time.Now().Add(time.Minute); ; {
		moving, err := stores[0].Runs(ctx, chain.Filter{Limit: runs, Statuses: []chain.Status{chain.Running, chain.Compensating}})
		if err != nil {
			t.Fatal(err)
		}
		if len(moving) > parallel {
			t.Errorf("%d runs of the batch move at once", len(moving))
		}
		ended, err := stores[0].Runs(ctx, chain.Filter{Limit: runs, Statuses: []chain.Status{chain.Completed}})
		if err != nil {
			t.Fatal(err)
		}
		if len(ended) == runs {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d have ended", len(ended), runs)
		}
		time.Sleep(20 * time.Millisecond) // of the poll for the end, within the deadline
	}
	stop()
	running.Wait()
	o.check(t, runs)
	for _, s := range starts {
		events, err := stores[0].Events(context.Background(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := Story(events); got != "a:succeeded b:succeeded c:succeeded" {
			t.Errorf("%s: %s", s.ID, got)
		}
	}
}

// once detects work that is done twice, or at the same time.
type once struct {
	mu    sync.Mutex
	busy  map[string]bool
	done  map[string]int
	twice atomic.Int64
}

func (o *once) stage(name string) chain.Stage[ScriptState] {
	enter := func(id string) func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.busy[id] {
			o.twice.Add(1)
		}
		o.busy[id] = true
		return func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.busy[id] = false
		}
	}
	return chain.Stage[ScriptState]{Name: name, Do: func(_ context.Context, r *chain.Run[ScriptState]) error {
		defer enter(r.ID)()
		if !slices.Contains(r.State.Trail, name) {
			r.State.Trail = append(r.State.Trail, name)
			return chain.Again(time.Millisecond, "not yet")
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done[r.Key()]++
		return nil
	}}
}

func (o *once) check(t *testing.T, runs int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.twice.Load(); n > 0 {
		t.Errorf("%d times two steps of a run were going on", n)
	}
	for key, n := range o.done {
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	if len(o.done) != 3*runs {
		t.Errorf("%d stages were done, want %d", len(o.done), 3*runs)
	}
}
