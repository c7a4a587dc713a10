package turnover_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
)

var (
	ctx = context.Background()
	ada = chain.Actor{Name: "ada", Role: "operator"}
)

const node = "n-abcdefghijklmnop"

// world is a broker with one node, in memory. Nothing waits: the test moves the clock.
type world struct {
	t      testing.TB
	clock  *chaintest.Clock
	book   *turnovertest.Book
	store  *chaintest.Memory
	lossy  *chaintest.Lossy // the engine's view of store
	engine *chain.Engine
	policy broker.Policy
	runs   int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: chaintest.NewClock(), policy: broker.DefaultPolicy()}
	w.policy.AcceptSystemDisk = true
	w.book = turnovertest.New(t, w.clock.Now)
	t.Cleanup(w.judgesTheSameAgain)
	w.book.Add(node, 8)
	w.store = chaintest.NewMemory(w.clock.Now)
	w.lossy = &chaintest.Lossy{Store: w.store}
	var err error
	if w.engine, err = chain.New(w.lossy, classes(), chain.Options{Owner: "broker"}, (&turnover.Chains{Nodes: w.book, MAAS: &onboarding.Chains{}}).All()...); err != nil {
		t.Fatal(err)
	}
	return w
}

// classes are the broker's classes, in the engine's form.
func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(), UndoAction: h.UndoAction()}
	}
	return out
}

// begin starts a run, and settles it.
func (w *world) begin(req turnover.Request) chain.Record {
	w.t.Helper()
	r, err := w.start(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.settle(r.ID)
}

func (w *world) start(req turnover.Request) (chain.Record, error) {
	w.t.Helper()
	if req.Reason == "" {
		req.Reason = "the tenant left"
	}
	w.runs++
	req.Ends = w.book.Machine(node).Live()
	s, locks, err := turnover.New(w.book.Machine(node).Node, turnover.Place{Policy: w.policy}, req)
	if err != nil {
		return chain.Record{}, err
	}
	return w.engine.Start(ctx, chain.Start{ID: "r-" + string(rune('0'+w.runs)), Kind: req.Mode.Kind(), Site: "dc1", Subject: s.Hostname, State: s, Locks: locks, RequestedBy: "ada"})
}

func (w *world) settle(id string) chain.Record {
	w.t.Helper()
	w.clock.Advance(time.Second)
	if err := chaintest.Settle(ctx, w.engine, w.store, w.clock); err != nil {
		w.t.Fatal(err)
	}
	return w.run(id)
}

func (w *world) run(id string) chain.Record {
	w.t.Helper()
	r, err := w.store.Run(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) act(id string, a chain.Action) chain.Record {
	w.t.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"}); err != nil {
		w.t.Fatal(err)
	}
	return w.settle(id)
}

func (w *world) state(id string) (s turnover.Turnover) {
	w.t.Helper()
	if err := json.Unmarshal(w.run(id).State, &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// went lists the outcomes of a run's stages.
func (w *world) went(id string) (out []string) {
	w.t.Helper()
	events, err := w.store.Events(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Status != chain.Started {
			out = append(out, e.Stage+" "+string(e.Status))
		}
	}
	return out
}

// stands checks the node's state.
func (w *world) stands(status broker.NodeStatus, owed bool) {
	w.t.Helper()
	if m := w.book.Machine(node); m.Status != status || m.TurnoverOwed != owed {
		w.t.Errorf("the node is %s (%s), turnover owed %v; want %s, %v", m.Status, m.StatusReason, m.TurnoverOwed, status, owed)
	}
}

func (w *world) failed(r chain.Record, stage string, class broker.FailureClass, code string) {
	w.t.Helper()
	if r.Status != chain.FailedManual || r.Stage != stage || r.Failure == nil || r.Failure.Class != chain.Class(class) || code != "" && r.Failure.Code != code {
		w.t.Errorf("run %s: %s at %s: %+v; want %s at %s (%s)", r.ID, r.Status, r.Stage, r.Failure, class, stage, code)
	}
}
