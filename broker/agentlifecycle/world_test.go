package agentlifecycle_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	ctx = context.Background()
	ada = chain.Actor{Name: "ada"}
)

var release = agentlifecycle.Target{Version: "1.4.0", Commit: "abc", SHA256: "11", Digest: "sha256:aa"}

// world is one node, its broker's records and its agent, in memory.
type world struct {
	t      *testing.T
	clock  *chaintest.Clock
	store  *chaintest.Memory
	engine *chain.Engine

	node    broker.Node
	agent   broker.Agent
	live    []broker.Occupant
	unfit   []broker.Reason
	renewed time.Time
	trust   int64
	tasks   map[string]*broker.Task // by key
	told    []agentlifecycle.Delivery
	asked   int // for its report
	mayGive error

	turnover  *chain.Record
	reimagedN int

	// does is the agent's work on a task; nil: the task stays queued.
	does func(k *broker.Task, params any)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: chaintest.NewClock(), tasks: map[string]*broker.Task{}, trust: 3}
	w.store = chaintest.NewMemory(w.clock.Now)
	now := w.clock.Now()
	w.node = broker.Node{
		ID: "n-1", Hostname: "gpu-01", Status: broker.Active, Epoch: 1, AgentVersion: "1.3.0", TaskTypes: taskcatalog.IDs(), TrustVersion: 3,
		CertNotAfter: now.Add(12 * time.Hour), LastAgentContactAt: now, ResolverWanted: "sha256:p", ResolverDigest: "sha256:p",
	}
	w.agent = broker.Agent{NodeID: "n-1", Channel: broker.ChannelStable, Commit: "old", SHA256: "10"}
	w.renewed = now.Add(-time.Hour)
	w.does = w.well
	chains := &agentlifecycle.Chains{Nodes: w}
	var err error
	w.engine, err = chain.New(w.store, chain.Classes{
		chain.UpstreamTransient:               {Retry: true, Ends: chain.FailedRetryable},
		chain.Class(broker.AgentUpdateFailed): {Ends: chain.FailedRetryable, NextAction: "read why"},
		chain.Class(broker.InputConfigError):  {Ends: chain.FailedRetryable},
		chain.Class(broker.AgentSilent):       {Ends: chain.FailedManual},
		chain.StateAmbiguity:                  {Ends: chain.FailedManual},
	}, chain.Options{Owner: "one"}, chains.All()...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// well is an agent that carries out its tasks.
func (w *world) well(k *broker.Task, params any) {
	switch p := params.(type) {
	case taskcatalog.SelfUpdateParams:
		from := w.node.AgentVersion
		w.becomes(p.Version)
		w.ended(k, taskcatalog.SelfUpdateResult{Phase: p.Phase, FromVersion: from, ToVersion: p.Version, Outcome: taskcatalog.UpdateConfirmed, Seconds: 41.2, SwitchSeconds: 6})
	case taskcatalog.HeartbeatCheckParams:
		w.ended(k, taskcatalog.HeartbeatCheckResult{AgentVersion: w.node.AgentVersion})
	case taskcatalog.ResolverConfigParams:
		w.node.ResolverDigest = w.node.ResolverWanted
		w.ended(k, struct{}{})
	default:
		switch k.Type {
		case "node.trust_update":
			w.node.TrustVersion = w.trust
		case "node.rotate_identity":
			w.renewed = w.clock.Now()
		}
		w.ended(k, struct{}{})
	}
}

func (w *world) becomes(version string) {
	w.node.AgentVersion, w.agent.Commit, w.agent.SHA256 = version, release.Commit, release.SHA256
}

func (w *world) ended(k *broker.Task, result any) {
	raw, err := json.Marshal(result)
	if err != nil {
		w.t.Fatal(err)
	}
	k.Status, k.Result, k.Outcome = broker.TaskSucceeded, raw, taskcatalog.OutcomeSucceeded
}

// place holds the facts for an operator's request.
func (w *world) place() agentlifecycle.Place {
	want := &broker.AgentRelease{Version: release.Version, Commit: release.Commit, SHA256: release.SHA256}
	t := release
	return agentlifecycle.Place{
		Node: w.node, Live: w.live, Release: &t, Now: w.clock.Now(), Standing: broker.AgentStanding(w.node, w.agent, want, w.trust, w.clock.Now()),
		Package: &agentlifecycle.Package{URL: "https://broker/p", SHA256: "22", Filename: "hostler-agent_1.4.0_amd64.deb"},
	}
}

func (w *world) request(scenario broker.DeliveryScenario) agentlifecycle.Request {
	return agentlifecycle.Request{Mode: broker.ByRebootstrap, Scenario: scenario, Safety: broker.OnlyIdle, Reason: "because", RequestedBy: "ada"}
}

func (w *world) start(req agentlifecycle.Request) agentlifecycle.List {
	w.t.Helper()
	s, locks, err := agentlifecycle.New(w.place(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Start(ctx, chain.Start{ID: "r", Kind: s.List.Kind(), Site: "dc1", State: s, Locks: locks}); err != nil {
		w.t.Fatal(err)
	}
	return s.List
}

// settle steps until nothing is due within the time.
func (w *world) settle(within time.Duration) {
	w.t.Helper()
	end := w.clock.Now().Add(within)
	for {
		w.node.LastAgentContactAt = w.clock.Now()
		worked, err := w.engine.Step(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if worked {
			continue
		}
		next, err := w.store.NextDue(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			return
		}
		w.clock.AdvanceTo(next)
	}
}

func (w *world) run() chain.Record {
	w.t.Helper()
	r, err := w.store.Run(ctx, "r")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) story() string {
	w.t.Helper()
	events, err := w.store.Events(ctx, "r")
	if err != nil {
		w.t.Fatal(err)
	}
	var words []string
	for _, e := range events {
		if e.Status != chain.Started {
			words = append(words, e.Stage+":"+string(e.Status))
		}
	}
	return strings.Join(words, " ")
}

func (w *world) Node(context.Context, string) (broker.Node, error)   { return w.node, nil }
func (w *world) Agent(context.Context, string) (broker.Agent, error) { return w.agent, nil }
func (w *world) Live(context.Context, string) ([]broker.Occupant, error) {
	return w.live, nil
}

func (w *world) Unfit(context.Context, string) ([]broker.Reason, error) { return w.unfit, nil }
func (w *world) ProfilesVersion(_ context.Context, digest string) (string, error) {
	return "v-" + strings.TrimPrefix(digest, "sha256:"), nil
}
func (w *world) CheckRelease(context.Context, string, bool) error { return w.mayGive }
func (w *world) TrustVersion() int64                              { return w.trust }
func (w *world) RecordDelivery(_ context.Context, d agentlifecycle.Delivery) error {
	w.told = append(w.told, d)
	return nil
}

func (w *world) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	k := w.tasks[t.Key]
	if k == nil {
		k = &broker.Task{ID: "t-" + t.Key, NodeID: t.NodeID, Type: t.Type, Status: broker.TaskQueued}
		w.tasks[t.Key] = k
		if w.does != nil {
			w.does(k, t.Params)
		}
	}
	return *k, nil
}

func (w *world) Withdraw(context.Context, string, string, string) (all []broker.Task, err error) {
	for _, k := range w.tasks {
		switch {
		case k.Status == broker.TaskQueued:
			k.Status = broker.TaskCanceled
		case !k.Status.Ended():
			k.CancelRequested = true
		}
		all = append(all, *k)
	}
	return all, nil
}

func (w *world) AskReport(context.Context, string) error {
	w.asked++
	w.renewed = w.clock.Now().Add(time.Second)
	return nil
}
func (w *world) RenewedAt(context.Context, string) (time.Time, error) { return w.renewed, nil }

func (w *world) Reimage(_ context.Context, runID string, _ agentlifecycle.Work) (string, error) {
	w.reimagedN++
	w.turnover = &chain.Record{ID: runID + "-reimage", Status: chain.Running, Stage: "deploy_via_maas"}
	return w.turnover.ID, nil
}
func (w *world) Turnover(context.Context, string) (chain.Record, error) { return *w.turnover, nil }
