package records

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// broken breaks every 33rd node: 6 of 200.
func (f *fleet) broken() {
	for i := 10; i < len(f.all); i += 33 {
		f.all[i].makes = []string{"rolled_back", "unwell"}[i%2]
	}
}

// A build that is broken on three nodes of a hundred pauses its rollout, and these nodes have
// their previous version back. The test runs on PostgreSQL alone, since SQLite waits for the disk
// at each of thousands of saves; smaller fleets run on both.
func TestABuildThatIsBrokenOnAFew(t *testing.T) {
	clock := storetest.NewClock()
	f := newFleet(t, storetest.Open(t, "postgres", clock.Now), clock, 200)
	f.broken()
	id := f.roll(func(*rollout.Request) {})
	r, s := f.settle(id)
	n := s.Count(-1)
	if r.Status != chain.FailedManual || r.Failure.Code != rollout.CodePaused || n[rollout.RolledBack]+n[rollout.TakenBack] != 4 || n[rollout.Waiting] == 0 {
		f.Fatalf("it is %s at %s with %v: %+v", r.Status, r.Stage, n, r.Failure)
	}
	f.truthful(s)
	_, err := f.engine.Act(f.Context(), chain.Order{ID: id, Actor: chain.Actor{Name: "ada"}, Action: chain.Resume})
	f.ok(err)
	r, s = f.settle(id)
	n = s.Count(-1)
	if r.Status != chain.Completed || n[rollout.Done] != 194 || n[rollout.RolledBack] != 3 || n[rollout.TakenBack] != 3 {
		f.Errorf("it is %s with %v: %+v", r.Status, n, r.Failure)
	}
	f.truthful(s)
}

func TestABuildThatIsTakenBackFromAll(t *testing.T) {
	eachFleet(t, 40, func(f *fleet) {
		f.all[10].makes, f.all[20].makes = "rolled_back", "unwell"
		r, s := f.settle(f.roll(func(r *rollout.Request) { r.OnFailure, r.Plan.MaxFailures, r.Plan.Concurrency = rollout.Rollback, 2, 5 }))
		n := s.Count(-1)
		if r.Status != chain.FailedManual || n[rollout.Done] != 0 || n[rollout.TakenBack] < 10 {
			f.Errorf("it is %s with %v: %+v", r.Status, n, r.Failure)
		}
		f.truthful(s)
	})
}

// Of two rollouts over the same nodes the second is refused with the name of the first.
func TestTwoRolloutsOverOneNode(t *testing.T) {
	eachFleet(t, 3, func(f *fleet) {
		first := f.roll(func(*rollout.Request) {})
		if _, err := f.tryRoll(func(*rollout.Request) {}); broker.AsError(err).Code != "rollout_empty" || !strings.Contains(err.Error(), first) {
			f.Errorf("the second: %v", err)
		}
		order := rollout.Order{ID: "x-n-000", Rollout: "x", NodeID: "n-000", Version: after, Safety: broker.OnlyIdle, RequestedBy: "bob"}
		for range 4 {
			_, err := f.engine.Step(f.Context())
			f.ok(err)
		}
		if err := f.nodes.Begin(f.Context(), order); broker.AsError(err).Code != "node_in_run" || !strings.Contains(err.Error(), "of rollout "+first) {
			f.Errorf("where both would begin: %v", err)
		}
		if r, s := f.settle(first); r.Status != chain.Completed || s.Count(-1)[rollout.Done] != 3 {
			f.Errorf("the first is %s with %v", r.Status, s.Count(-1))
		}
	})
}

// A run that waits for a tenant is withdrawn, and recorded as withdrawn.
func TestATenantOnANodeOfARollout(t *testing.T) {
	eachFleet(t, 4, func(f *fleet) {
		f.letIn("n-001", "a-1", "acme")
		id := f.roll(func(r *rollout.Request) { r.Safety, r.Plan.Canary, r.Plan.Waves = broker.AfterDrain, 1, []int{100} })
		r, s := f.until(id, func(r chain.Record) bool { return r.Stage == "complete_rollout" && r.Waiting != "" })
		if m := s.Members[1]; !m.Parked || m.Result != rollout.Running || s.Count(-1)[rollout.Done] != 3 {
			f.Fatalf("%+v, %v", m, s.Count(-1))
		}
		_, err := f.engine.Act(f.Context(), chain.Order{ID: id, Actor: chain.Actor{Name: "ada"}, Action: chain.MarkManual, Reason: "lunch"})
		f.ok(err)
		r, s = f.settle(id)
		if m := s.Members[1]; r.Status != chain.FailedManual || r.Failure.Code != chain.CodeMarked || m.Result != rollout.Waiting || m.Try != 1 || m.Counts != rollout.NoFailure {
			f.Errorf("paused it is %s: %+v", r.Status, m)
		}
		_, err = f.engine.Act(f.Context(), chain.Order{ID: id, Actor: chain.Actor{Name: "ada"}, Action: chain.Resume})
		f.ok(err)
		_, _ = f.until(id, func(r chain.Record) bool { return f.members(r)[1].Parked })
		_, err = f.engine.Act(f.Context(), chain.Order{ID: id, Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "no more"})
		f.ok(err)
		r, s = f.settle(id)
		if m := s.Members[1]; r.Status != chain.Cancelled || m.Result != rollout.Skipped || m.Code != "rollout_aborted" {
			f.Errorf("%s: %+v", r.Status, m)
		}
		runs, err := f.db.RunsOfNode(f.Context(), "n-001", chain.Filter{})
		f.ok(err)
		for _, child := range runs {
			if child.Status != chain.Cancelled {
				f.Errorf("run %s is %s", child.ID, child.Status)
			}
		}
		if len(runs) != 2 || s.Members[1].Current(id) != "" {
			f.Errorf("%d runs, the last is %q", len(runs), s.Members[1].Current(id))
		}
	})
}

func TestWhichReleaseMayBeRolledOut(t *testing.T) {
	eachFleet(t, 1, func(f *fleet) {
		f.publish("1.5.0", "candidate")
		if r, err := f.nodes.Release(f.Context(), "1.5.0", false); err != nil || r.Channel != broker.ChannelCandidate || r.SHA256 != program("1.5.0") || r.Commit != "c-1" {
			f.Errorf("%+v, %v", r, err)
		}
		_, err := f.db.SetReleaseFloor(f.Context(), ada, "1.5.0", "a hole")
		f.ok(err)
		if _, err := f.nodes.Release(f.Context(), "1.4.0", false); broker.AsError(err).Code != "release_below_floor" {
			f.Errorf("below the floor: %v", err)
		}
		if _, err := f.nodes.Release(f.Context(), "1.4.0", true); err != nil {
			f.Errorf("a rollback: %v", err)
		}
		_, err = f.db.RevokeRelease(f.Context(), ada, "1.5.0", "no good")
		f.ok(err)
		for version, code := range map[string]string{"1.5.0": "release_revoked", "9.9.9": "agent_release_unknown"} {
			if _, err := f.nodes.Release(f.Context(), version, true); broker.AsError(err).Code != code {
				f.Errorf("%s: %v, want %s", version, err, code)
			}
		}
	})
}

// Runs under way at a revocation end, and nothing more begins.
func TestARevokedReleaseIsGivenToNobodyMore(t *testing.T) {
	eachFleet(t, 12, func(f *fleet) {
		id := f.roll(func(r *rollout.Request) { r.Plan.Concurrency = 2 })
		_, _ = f.until(id, func(r chain.Record) bool {
			s := rollout.Rollout{Members: f.members(r)}
			return s.Count(-1)[rollout.Done] >= 3
		})
		_, err := f.db.RevokeRelease(f.Context(), ada, after, "eats disks")
		f.ok(err)
		r, s := f.settle(id)
		if n := s.Count(-1); r.Failure == nil || r.Failure.Code != "release_revoked" || n[rollout.Waiting] == 0 {
			f.Errorf("it is %s with %v: %+v", r.Status, n, r.Failure)
		}
		f.truthful(s)
	})
}

// A whole wave falls silent at once. The broker marks no node offline, because the network is the
// more likely cause; the wave still does not pass its soak, and the rollout stops.
func TestAWaveThatFallsSilentWhenItWasConfirmed(t *testing.T) {
	eachFleet(t, 20, func(f *fleet) {
		for i := 2; i < 10; i++ {
			f.all[i].makes = "mute"
		}
		f.watch = &presence.Watch{DB: f.db, Now: f.clock.Now, Log: zap.NewNop()}
		r, s := f.settle(f.roll(func(r *rollout.Request) { r.Plan.Waves, r.Plan.MaxFailures = []int{50, 100}, 2 }))
		n := s.Count(-1)
		if r.Status != chain.FailedManual || n[rollout.Failed] != 8 || n[rollout.Waiting] != 10 || s.Members[5].Code != "agent_silent" {
			f.Errorf("it is %s with %v: %+v", r.Status, n, r.Failure)
		}
		all, _, err := f.db.ListNodes(f.Context(), store.NodeFilter{Statuses: []broker.NodeStatus{broker.Offline}})
		f.ok(err)
		if len(all) > 0 {
			f.Errorf("%d are offline, and this proves nothing", len(all))
		}
	})
}

// The look at a node shows who caused its state.
func TestWhoseDoingIsSeen(t *testing.T) {
	eachFleet(t, 5, func(f *fleet) {
		f.letIn("n-001", "a-1", "acme")
		_, err := f.db.Transition(f.Context(), ada, "n-002", store.Change{To: broker.Draining, By: broker.OwnerOperator, Reason: "mend"})
		f.ok(err)
		ids := []string{"n-000", "n-001", "n-002", "n-404"}
		all, err := f.nodes.Look(f.Context(), ids)
		f.ok(err)
		for id, want := range map[string]rollout.NodeState{"n-000": {}, "n-001": {Busy: true}, "n-002": {OutOfUse: true}} {
			if is, there := all[id]; !there || is.Busy != want.Busy || is.OutOfUse != want.OutOfUse || is.Version != before || is.At.IsZero() {
				f.Errorf("%s is seen as %+v", id, is)
			}
		}
		heard, err := f.nodes.Heard(f.Context(), ids)
		f.ok(err)
		if len(all) != 3 || len(heard) != 3 || heard["n-001"] != all["n-001"].Heard {
			f.Errorf("%d are seen, and heard are %+v", len(all), heard)
		}
		if stopped, err := f.nodes.PollsStopped(f.Context()); err != nil || stopped {
			f.Errorf("polls have stopped: %v, %v", stopped, err)
		}
		f.clock.Advance(time.Hour)
		if stopped, err := f.nodes.PollsStopped(f.Context()); err != nil || !stopped {
			f.Errorf("an hour later polls have stopped: %v, %v", stopped, err)
		}
	})
}
