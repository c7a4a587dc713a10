package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/rollout"
)

var (
	ctx = context.Background()
	ada = chain.Actor{Name: "ada"}
)

var newest = rollout.Release{Version: "1.4.0", Digest: "sha256:aa", Channel: broker.ChannelStable, Commit: "abc", SHA256: "11"}

// took is how long a run on a node takes here.
const took = 40 * time.Second

// machine is a node and its agent.
type machine struct {
	version string
	busy    bool // a tenant is on it
	inRun   string
	quiet   bool // its agent is not heard
	mute    bool // the agent is not heard once it runs the release
	heard   time.Time
	seen    rollout.NodeState
	node    func(*rollout.Candidate) // later changes of the node
	// makes is the node's result with the release: "" well, or the code of a stopped run.
	// With unwell the node keeps the release; otherwise the node keeps the previous version.
	makes string
	no    *broker.Error // the refusal of a run on the node
}

// others is the kind of a run outside rollouts.
const others = "others"

const unwell = "version_not_running"

// world is a fleet in memory, with the runs on its nodes.
type world struct {
	t        testing.TB
	clock    *chaintest.Clock
	memory   *chaintest.Memory
	store    *chaintest.Lossy
	engine   *chain.Engine
	members  []broker.RolloutMember // of the rollout, as saved
	machines map[string]*machine
	runs     map[string]*chain.Record
	starts   map[string]time.Time
	given    []string // version/node, for each delivery
	most     int      // largest number of moving runs
	release  *broker.Error
	digest   string
	unread   error // of each look at a run
	deaf     bool  // nobody is heard
	looks    int   // at single nodes
}

func newWorld(t testing.TB, n int) *world {
	t.Helper()
	w := &world{t: t, clock: chaintest.NewClock(), machines: map[string]*machine{}, runs: map[string]*chain.Record{}, starts: map[string]time.Time{}, digest: newest.Digest}
	w.memory = chaintest.NewMemory(w.clock.Now)
	w.memory.Apply = w.save
	w.store = &chaintest.Lossy{Store: w.memory}
	for i := range n {
		w.machines[id(i)] = &machine{version: "1.3.0"}
	}
	w.reboot()
	return w
}

// save is the table of members.
func (w *world) save(effect any) error {
	for _, m := range effect.(broker.SaveMembers) {
		if m.Place == len(w.members) {
			w.members = append(w.members, m)
		}
		w.members[m.Place] = m
	}
	return nil
}

// Members implements rollout.Nodes.
func (w *world) Members(context.Context, string) ([]broker.RolloutMember, error) {
	return slices.Clone(w.members), nil
}

func id(i int) string { return fmt.Sprintf("n-%03d", i) }

// reboot is a new broker.
func (w *world) reboot() {
	w.t.Helper()
	var err error
	c := &rollout.Chains{Nodes: w}
	w.engine, err = chain.New(w.store, chain.Classes{
		chain.UpstreamTransient:              {Retry: true, Ends: chain.FailedRetryable},
		chain.Class(broker.RolloutPaused):    {Ends: chain.FailedManual},
		chain.Class(broker.InputConfigError): {Ends: chain.FailedRetryable},
		chain.StateAmbiguity:                 {Ends: chain.FailedManual},
	}, chain.Options{}, c.Rollout())
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) candidates() (all []rollout.Candidate) {
	for i := range len(w.machines) {
		all = append(all, w.candidate(i))
	}
	return all
}

func (w *world) candidate(i int) rollout.Candidate {
	m := w.machines[id(i)]
	c := rollout.Candidate{
		Node:  broker.Node{ID: id(i), Hostname: "g" + id(i)[2:], Status: broker.Active, Epoch: 1, AgentVersion: m.version, Labels: map[string]string{"rack": fmt.Sprint(i % 2)}},
		Agent: broker.NewAgent(id(i)), Busy: m.busy,
	}
	if m.node != nil {
		m.node(&c)
	}
	return c
}

func (w *world) Candidate(_ context.Context, nodeID string) (rollout.Candidate, error) {
	w.advance()
	for i := range len(w.machines) {
		if id(i) == nodeID {
			return w.candidate(i), nil
		}
	}
	return rollout.Candidate{}, broker.Errorf(broker.NotFound, "node_not_found", "there is no node %s", nodeID)
}

func request() rollout.Request {
	return rollout.Request{
		Release: newest, Selector: "all", OnFailure: rollout.Pause, Safety: broker.OnlyIdle, RequestedBy: "ada",
		Plan: rollout.Plan{Canary: 1, Waves: []int{50, 100}, Concurrency: 3, SoakSeconds: 60, MaxFailures: 2},
	}
}

func (w *world) start(req rollout.Request) {
	w.t.Helper()
	s, err := rollout.New(req, w.candidates())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Start(ctx, chain.Start{ID: "r", Kind: rollout.Kind, Site: broker.NoSite, State: s}); err != nil {
		w.t.Fatal(err)
	}
}

// settle steps until nothing is due within the time.
func (w *world) settle(within time.Duration) {
	w.t.Helper()
	end := w.clock.Now().Add(within)
	for {
		worked, err := w.engine.Step(ctx)
		switch {
		case errors.Is(err, chaintest.ErrKilled):
			w.reboot()
			continue
		case err != nil:
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
			w.clock.AdvanceTo(end)
			return
		}
		w.clock.AdvanceTo(next)
	}
}

func (w *world) act(a chain.Action) {
	w.t.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: a, Reason: "because"}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rollout() (chain.Record, rollout.Rollout) {
	w.t.Helper()
	r, err := w.memory.Run(ctx, "r")
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := rollout.Load(ctx, w.Members, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, s
}

// is checks the rollout's status, the failure's code and the counts by result, such as
// "done 5, failed 1".
func (w *world) is(status chain.Status, code, counts string) {
	w.t.Helper()
	r, s := w.rollout()
	got := ""
	if r.Failure != nil && !r.Status.Ended() {
		got = r.Failure.Code
	}
	if r.Status != status || got != code || w.counts() != counts {
		w.t.Errorf("it is %s at %s (%s), with %s; want %s (%s), with %s\n%s %+v\n%+v", r.Status, r.Stage, got, w.counts(), status, code, counts, r.Waiting, r.Failure, s.Members)
	}
}

func (w *world) counts() string {
	_, s := w.rollout()
	n := s.Count(-1)
	var words []string
	for _, r := range rollout.Results {
		if n[r] > 0 {
			words = append(words, fmt.Sprintf("%s %d", r, n[r]))
		}
	}
	return strings.Join(words, ", ")
}

func (w *world) member(i int) rollout.Member {
	w.t.Helper()
	_, s := w.rollout()
	for _, m := range s.Members {
		if m.NodeID == id(i) {
			return m
		}
	}
	w.t.Fatalf("%s is no member", id(i))
	return rollout.Member{}
}

func (w *world) Release(_ context.Context, version string, _ bool) (rollout.Release, error) {
	if w.release != nil {
		return rollout.Release{}, w.release
	}
	r := newest
	r.Digest = w.digest
	return r, nil
}

func (w *world) Busy(context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for id, m := range w.machines {
		out[id] = m.busy
	}
	return out, nil
}

func (w *world) Begin(_ context.Context, o rollout.Order) error {
	m := w.machines[o.NodeID]
	switch {
	case w.runs[o.ID] != nil:
		return nil
	case m.no != nil:
		return m.no
	case m.inRun != "":
		return broker.Errorf(broker.Refused, "node_in_run", "run %s has it", m.inRun)
	case m.busy && o.Safety == broker.OnlyIdle:
		return broker.Errorf(broker.Refused, "allocation_live", "somebody is on it")
	}
	raw, err := json.Marshal(agentlifecycle.Work{NodeID: o.NodeID, Safety: o.Safety, Target: &agentlifecycle.Target{Version: o.Version}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.runs[o.ID] = &chain.Record{ID: o.ID, Status: chain.Running, Direction: chain.Forward, Stage: "check_safety", State: raw, StartedAt: w.clock.Now()}
	w.starts[o.ID] = w.clock.Now()
	w.advance()
	moving := 0
	for _, r := range w.runs {
		if r.Status.Moving() && r.Waiting == "" {
			moving++
		}
	}
	w.most = max(w.most, moving)
	return nil
}

// advance brings all runs up to now.
func (w *world) advance() {
	now := w.clock.Now()
	for _, id := range slices.Sorted(keysOf(w.runs)) {
		r := w.runs[id]
		if !r.Status.Moving() || r.Kind == others {
			continue
		}
		var u agentlifecycle.Work
		if err := json.Unmarshal(r.State, &u); err != nil {
			w.t.Fatal(err)
		}
		m := w.machines[u.NodeID]
		if u.BegunAt.IsZero() {
			if m.busy && u.Safety == broker.AfterDrain {
				r.Waiting = "allocation a-1 is on it"
				continue
			}
			u.BegunAt, u.From, r.Waiting, r.Stage = now, m.version, "", "update_agent"
			w.starts[id] = now
			w.given = append(w.given, u.Target.Version+"/"+u.NodeID)
			r.State, _ = json.Marshal(u)
		}
		if now.Sub(w.starts[id]) < took {
			continue
		}
		r.UpdatedAt = now
		if u.Target.Version != newest.Version || m.makes == "" {
			m.version, r.Status, r.CompletedAt = u.Target.Version, chain.Completed, now
			m.quiet = m.quiet || m.mute
			continue
		}
		if m.makes == unwell {
			m.version, r.Stage = u.Target.Version, "verify_health"
		}
		r.Status, r.Failure = chain.FailedRetryable, &chain.Failure{Class: "agent_update_failed", Code: m.makes, Message: "no good"}
	}
}

func keysOf(m map[string]*chain.Record) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (w *world) Run(_ context.Context, id string) (chain.Record, error) {
	w.advance()
	r := w.runs[id]
	if w.unread != nil {
		return chain.Record{}, w.unread
	}
	if r == nil {
		return chain.Record{}, broker.Errorf(broker.NotFound, "run_not_found", "there is no run %s", id)
	}
	return *r, nil
}

func (w *world) Cancel(_ context.Context, id, reason string) error {
	w.advance()
	if r := w.runs[id]; !r.Status.Ended() {
		r.Status, r.AskedBy, r.AskedCause, r.CompletedAt = chain.Cancelled, rollout.Actor.Name, reason, w.clock.Now()
	}
	return nil
}

// hear updates the contact of all agents that can be heard.
func (w *world) hear() {
	for _, m := range w.machines {
		if !m.quiet && !w.deaf {
			m.heard = w.clock.Now()
		}
	}
}

func (w *world) Heard(_ context.Context, ids []string) (map[string]rollout.Heard, error) {
	w.advance()
	w.hear()
	out := map[string]rollout.Heard{}
	for _, id := range ids {
		m := w.machines[id]
		out[id] = rollout.Heard{Version: m.version, At: m.heard}
	}
	return out, nil
}

func (w *world) PollsStopped(context.Context) (bool, error) { return w.deaf, nil }

func (w *world) Look(_ context.Context, ids []string) (map[string]rollout.NodeState, error) {
	w.advance()
	w.hear()
	out := map[string]rollout.NodeState{}
	for _, id := range ids {
		w.looks++
		m := w.machines[id]
		s := m.seen
		s.Heard, s.InRun, s.Busy = rollout.Heard{Version: m.version, At: m.heard}, m.inRun, m.busy
		out[id] = s
	}
	return out, nil
}

func (w *world) HasOpenTask(context.Context, string, string) (bool, error) { return false, nil }
