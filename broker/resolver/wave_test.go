package resolver

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
)

var (
	now  = time.Unix(1_800_000_000, 0)
	want = store.ResolverWant{ID: 7, Digest: "sha256:new", Version: "v2"}
)

// fleet makes nodes; the first ones already have the set.
func fleet(size, have int) []broker.Node {
	nodes := make([]broker.Node, size)
	for i := range nodes {
		nodes[i] = broker.Node{
			ID: fmt.Sprintf("n-%03d", i), Status: broker.Active, Epoch: 1, TaskTypes: []string{taskType},
			LastAgentContactAt: now.Add(-time.Second), ResolverWanted: want.Digest, ResolverDigest: "sha256:old",
		}
		if i < have {
			nodes[i].ResolverDigest = want.Digest
		}
	}
	return nodes
}

func ended(n broker.Node, status broker.TaskStatus) map[string][]broker.Task {
	return map[string][]broker.Task{n.ID: {{ID: "t-" + n.ID, Status: status, Outcome: "failed", Code: "profile_refused", Message: "no such program", EndedAt: now.Add(-time.Hour)}}}
}

// proof returns a succeeded task of the want on the first node.
func proof(have int) map[string][]broker.Task {
	if have == 0 {
		return nil
	}
	return map[string][]broker.Task{"n-000": {{ID: "t-0", Status: broker.TaskSucceeded, EndedAt: now.Add(-time.Hour)}}}
}

// with returns the union of two sets of tasks.
func with(made map[string][]broker.Task, more map[string][]broker.Task) map[string][]broker.Task {
	all := map[string][]broker.Task{}
	maps.Copy(all, made)
	maps.Copy(all, more)
	return all
}

// A false report of the set must not count as a passed first wave, because a bad set could then
// spread.
func TestAClaimIsNoFirstWave(t *testing.T) {
	if s := next(now, want, fleet(100, 30), nil, nil); len(s.assign) != 1 {
		t.Errorf("30 nodes claim the set, none was given it: %d get it", len(s.assign))
	}
}

func TestATaskThatTheBrokerEndedStopsNothing(t *testing.T) {
	nodes := fleet(100, 1)
	ended := map[string][]broker.Task{nodes[50].ID: {{ID: "t-1", Status: broker.TaskFailed, Code: "node_reenrolled", EndedAt: now.Add(-time.Hour)}}}
	if s := next(now, want, nodes, with(proof(1), ended), nil); s.stop != "" || len(s.assign) != 10 {
		t.Errorf("%d get it, stopped because %q", len(s.assign), s.stop)
	}
}

func TestTheFirstWaveIsOneNodeAndTheNextATenth(t *testing.T) {
	for _, c := range []struct{ size, have, give int }{
		{100, 0, 1}, {100, 1, 10}, {100, 95, 5}, {5, 1, 1}, {5, 5, 0}, {10_000, 1, MaxWave}, {1, 0, 1},
	} {
		if s := next(now, want, fleet(c.size, c.have), proof(c.have), nil); len(s.assign) != c.give || s.stop != "" {
			t.Errorf("%d of %d have it: %d get it, %q; want %d", c.have, c.size, len(s.assign), s.stop, c.give)
		}
	}
}

func TestNoNextWaveBeforeTheLastHasEnded(t *testing.T) {
	nodes := fleet(100, 1)
	for _, status := range []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched} {
		if s := next(now, want, nodes, with(proof(1), ended(nodes[50], status)), nil); len(s.assign) != 0 {
			t.Errorf("with one %s, %d get it", status, len(s.assign))
		}
	}
}

func TestAFailureStopsTheWave(t *testing.T) {
	nodes := fleet(100, 1)
	s := next(now, want, nodes, with(proof(1), ended(nodes[50], broker.TaskFailed)), nil)
	if len(s.assign) != 0 || s.stop == "" {
		t.Errorf("%d get it, stopped because %q", len(s.assign), s.stop)
	}
	stopped := want
	stopped.StoppedAt = now
	if s := next(now, stopped, nodes, ended(nodes[50], broker.TaskFailed), nil); len(s.assign) != 0 || s.stop != "" {
		t.Errorf("it was stopped: %d get it, stopped again because %q", len(s.assign), s.stop)
	}
	for _, status := range []broker.TaskStatus{broker.TaskExpired, broker.TaskCanceled} {
		if s := next(now, want, nodes, with(proof(1), ended(nodes[50], status)), nil); s.stop != "" || len(s.assign) != 10 {
			t.Errorf("%s: %d get it, stopped because %q", status, len(s.assign), s.stop)
		}
	}
}

func TestWhoCannotBeAskedHoldsUpNobody(t *testing.T) {
	nodes := fleet(5, 1)
	nodes[1].LastAgentContactAt = now.Add(-time.Hour)
	nodes[2].Status = broker.Offline
	nodes[3].TaskTypes = []string{"node.drain@1"}
	if s := next(now, want, nodes, nil, nil); len(s.assign) != 1 || s.assign[0].ID != nodes[4].ID {
		t.Errorf("%+v", s.assign)
	}
}

func TestAnEnrollingNodeGetsItsSetAtOnceAndAgain(t *testing.T) {
	node := fleet(1, 0)[0]
	node.Status, node.LastAgentContactAt = broker.Enrolling, time.Time{}
	crowd := append(fleet(100, 1), node)
	crowd[100].ID = "n-new"
	stopped := want
	stopped.StoppedAt = now
	if s := next(now, stopped, crowd, nil, nil); len(s.assign) != 1 || s.assign[0].ID != "n-new" {
		t.Errorf("while the waves are stopped: %+v", s)
	}
	tries := []broker.Task{}
	for i := range enrolTries {
		if s := next(now, stopped, crowd, map[string][]broker.Task{"n-new": tries}, nil); len(s.assign) != 1 {
			t.Errorf("after %d tries: %+v", i, s)
		}
		tries = append(tries, broker.Task{ID: "t", NodeEpoch: node.Epoch, Status: broker.TaskFailed, EndedAt: now})
		if s := next(now, stopped, crowd, map[string][]broker.Task{"n-new": tries}, nil); len(s.assign) != 0 {
			t.Errorf("at once after a failure: %+v", s)
		}
		tries[i].EndedAt = now.Add(-2 * enrolAgain)
	}
	if s := next(now, stopped, crowd, map[string][]broker.Task{"n-new": tries}, nil); len(s.excluded) != 1 || s.excluded[0].ID != "n-new" {
		t.Errorf("after the last try: %+v", s)
	}
	if s := next(now, want, crowd, with(proof(1), map[string][]broker.Task{"n-new": tries}), nil); s.stop != "" || len(s.assign) != 10 {
		t.Errorf("after %d failures of a node that is enrolling, %d others get it, stopped because %q", enrolTries, len(s.assign), s.stop)
	}
	// Tasks of an earlier enrolment, ended or open, do not count for the present enrolment.
	again := node
	again.Epoch++
	tries = append(tries, broker.Task{ID: "t", NodeEpoch: node.Epoch, Status: broker.TaskQueued})
	if s := next(now, want, []broker.Node{again}, map[string][]broker.Task{"n-000": tries}, nil); len(s.assign) != 1 || len(s.excluded) != 0 {
		t.Errorf("enrolled again: %+v", s)
	}
	node.Epoch = 0
	if s := next(now, want, []broker.Node{node}, nil, nil); len(s.assign) != 0 {
		t.Error("a node that has not enrolled was given a task")
	}
}

// A freeze keeps waves from its sites, but does not stop enrolments.
func TestNoWaveGoesToAFrozenSite(t *testing.T) {
	nodes := fleet(4, 1)
	nodes[1].Site, nodes[2].Site, nodes[3].Site, nodes[3].Status = "dc1", "dc2", "dc1", broker.Enrolling
	for name, row := range map[string]struct {
		frozen freezes
		want   string
	}{
		"none":  {nil, "[n-003 n-001]"},
		"dc1":   {freezes{"dc1": true}, "[n-003 n-002]"},
		"dc2":   {freezes{"dc2": true}, "[n-003 n-001]"},
		"all":   {freezes{"": true}, "[n-003]"},
		"lost":  {freezesOf([]chain.SiteHold{{Site: "dc1", Kind: chain.Unreachable}}), "[n-003 n-001]"},
		"dc1 f": {freezesOf([]chain.SiteHold{{Site: "dc1", Kind: chain.Unreachable}, {Site: "dc1", Kind: chain.Freeze}}), "[n-003 n-002]"},
	} {
		var ids []string
		for _, n := range next(now, want, nodes, proof(1), row.frozen).assign {
			ids = append(ids, n.ID)
		}
		if fmt.Sprint(ids) != row.want {
			t.Errorf("with %s frozen %v get the set, want %s", name, ids, row.want)
		}
	}
}
