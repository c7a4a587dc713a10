package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/broker/store/storetest"
)

// BenchmarkRollout is one step of a rollout over the real store, with the given number of nodes,
// twenty at a time. The nodes themselves cost nothing here. Beside the time it reports how much a
// step writes of the state and of the members.
func BenchmarkRollout(b *testing.B) {
	for _, n := range []int{200, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) { benchmarkRollout(b, n) })
	}
}

func benchmarkRollout(b *testing.B, n int) {
	clock := storetest.NewClock()
	f := &easy{now: clock.Now, runs: map[string]time.Time{}}
	db := storetest.Open(b, "sqlite", clock.Now)
	f.members = db.RolloutMembers
	store := &written{Store: db}
	e, err := chain.New(store, chain.Classes{chain.UpstreamTransient: {Retry: true, Ends: chain.FailedRetryable}}, chain.Options{}, (&rollout.Chains{Nodes: f}).Rollout())
	if err != nil {
		b.Fatal(err)
	}
	all := make([]rollout.Candidate, n)
	for i := range all {
		id := fmt.Sprintf("node-01hzx3k5j6m7n8p9q0r1s2t3-%05d", i) // as long as a real one
		all[i] = rollout.Candidate{Node: broker.Node{ID: id, Hostname: fmt.Sprintf("gpu-%05d.dc1.example", i), Status: broker.Active, Epoch: 1, AgentVersion: "1.3.0"}, Agent: broker.NewAgent(id)}
	}
	started := 0
	start := func() {
		req := request()
		req.Plan = rollout.Plan{Canary: 1, Waves: []int{100}, Concurrency: 20, MaxFailures: 3}
		s, err := rollout.New(req, all)
		if err != nil {
			b.Fatal(err)
		}
		started++
		if _, err := e.Start(ctx, chain.Start{ID: fmt.Sprint("r", started), Kind: rollout.Kind, Site: broker.NoSite, State: s}); err != nil {
			b.Fatal(err)
		}
	}
	start()
	store.bytes = 0
	b.ResetTimer()
	for range b.N {
		for {
			worked, err := e.Step(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if worked {
				break
			}
			next, err := store.NextDue(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if next.IsZero() {
				start()
			} else {
				clock.Advance(next.Sub(clock.Now()))
			}
		}
	}
	b.ReportMetric(float64(store.bytes)/1024/float64(b.N), "KiB/step")
}

// A rollout looks every two seconds while runs move. Unchanged state is not written.
func TestALookThatSeesNothingNewWritesNoState(t *testing.T) {
	w := newWorld(t, 6)
	store := &written{Store: w.memory}
	w.store.Store = store
	w.start(request())
	w.settle(4 * time.Second)
	if n := w.counts(); n != "waiting 5, running 1" {
		t.Fatal(n)
	}
	was, saves := store.bytes, store.saves
	w.settle(took / 5)
	if store.saves < saves+3 || store.bytes != was {
		t.Errorf("%d looks wrote %d bytes of state", store.saves-saves, store.bytes-was)
	}
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 6")
}

// written counts the written bytes of states.
type written struct {
	chain.Store
	bytes, saves int
}

func (w *written) Save(ctx context.Context, c chain.Change) error {
	if w.saves++; !c.SameState {
		w.bytes += len(c.Record.State)
	}
	for _, e := range c.Effects {
		for _, m := range e.(broker.SaveMembers) {
			w.bytes += len(m.Member)
		}
	}
	return w.Store.Save(ctx, c)
}

// easy is a fleet on which each run takes half a minute to a minute and succeeds.
type easy struct {
	rollout.Nodes
	now     func() time.Time
	runs    map[string]time.Time // when each ends
	members func(ctx context.Context, rollout string) ([]broker.RolloutMember, error)
}

func (f *easy) Members(ctx context.Context, rollout string) ([]broker.RolloutMember, error) {
	return f.members(ctx, rollout)
}

func (f *easy) Release(context.Context, string, bool) (rollout.Release, error) { return newest, nil }
func (f *easy) Busy(context.Context) (map[string]bool, error)                  { return nil, nil }

func (f *easy) Candidate(_ context.Context, id string) (rollout.Candidate, error) {
	return rollout.Candidate{Node: broker.Node{ID: id, Status: broker.Active, Epoch: 1, AgentVersion: "1.3.0"}, Agent: broker.NewAgent(id)}, nil
}

func (f *easy) Begin(_ context.Context, o rollout.Order) error {
	if _, begun := f.runs[o.ID]; !begun {
		f.runs[o.ID] = f.now().Add(30*time.Second + time.Duration(len(f.runs)*7919%30)*time.Second)
	}
	return nil
}

func (f *easy) Run(_ context.Context, id string) (chain.Record, error) {
	ends, begun := f.runs[id]
	if !begun {
		return chain.Record{}, broker.Errorf(broker.NotFound, "run_not_found", "there is no run %s", id)
	}
	r := chain.Record{ID: id, Status: chain.Running, Direction: chain.Forward, StartedAt: ends.Add(-30 * time.Second), UpdatedAt: f.now()}
	if !f.now().Before(ends) {
		r.Status, r.CompletedAt = chain.Completed, ends
	}
	var err error
	r.State, err = json.Marshal(agentlifecycle.Work{Safety: broker.OnlyIdle, From: "1.3.0", BegunAt: r.StartedAt, Target: &agentlifecycle.Target{Version: newest.Version}})
	return r, err
}

func (f *easy) Heard(_ context.Context, ids []string) (map[string]rollout.Heard, error) {
	out := make(map[string]rollout.Heard, len(ids))
	for _, id := range ids {
		out[id] = rollout.Heard{Version: newest.Version, At: f.now()}
	}
	return out, nil
}

func (f *easy) Look(_ context.Context, ids []string) (map[string]rollout.NodeState, error) {
	out := make(map[string]rollout.NodeState, len(ids))
	for _, id := range ids {
		out[id] = rollout.NodeState{Heard: rollout.Heard{Version: newest.Version, At: f.now()}}
	}
	return out, nil
}
