package operation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/operation"
)

// onNodes is an operation of the platform on the nodes n-1 to n-5.
func onNodes(t testing.TB, b broker.OperationBatches) *world {
	w := five(t, b)
	w.o.Target, w.o.TargetID, w.o.AllocationID, w.o.ProjectID = broker.TargetGroup, "site=dc1", "", ""
	for _, id := range w.o.NodeIDs {
		w.o.Members = append(w.o.Members, broker.OperationMember{NodeID: id, Nodes: 1})
	}
	return w
}

// nodes is what became of the nodes that are members: succeeded/failed/skipped and code.
func (w *world) nodes() string {
	var all []string
	for _, m := range w.o.Members {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d/%d/%d %s", m.NodeID, m.Succeeded, m.Failed, m.Skipped, m.Code)))
	}
	return strings.Join(all, ", ")
}

// A node of the platform's group that got a tenant before its batch is skipped with the reason, and the next take its place.
// A node is the operation's from the begin of its batch alone, and nobody's task begins on a node that is not.
func TestANodeThatGotATenantIsSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		batches broker.OperationBatches
		after   string // the node at whose end the nodes are lost; empty: before all
		lost    []string
		stolen  []string // by somebody else, at the moment in which they are taken
		asked   string
		nodes   string
		status  broker.OperationStatus
		code    string
	}{
		"nobody is": {
			broker.OperationBatches{Canary: 1, Size: 2},
			"", nil, nil, "n-1 n-2 n-3 n-4 n-5",
			"n-1 1/0/0, n-2 1/0/0, n-3 1/0/0, n-4 1/0/0, n-5 1/0/0", broker.OperationSucceeded, "",
		},
		"between the batches": {
			broker.OperationBatches{Canary: 1, Size: 2},
			"n-1",
			[]string{"n-3"},
			nil, "n-1 n-2 n-4 n-5",
			"n-1 1/0/0, n-2 1/0/0, n-3 0/0/1 allocation_live, n-4 1/0/0, n-5 1/0/0", broker.OperationSucceeded, "",
		},
		"the canary": {
			broker.OperationBatches{Canary: 1},
			"",
			[]string{"n-1"},
			nil, "n-2 n-3 n-4 n-5",
			"n-1 0/0/1 allocation_live, n-2 1/0/0, n-3 1/0/0, n-4 1/0/0, n-5 1/0/0", broker.OperationSucceeded, "",
		},
		"as it is taken": {
			broker.OperationBatches{Size: 2},
			"", nil,
			[]string{"n-2", "n-3"},
			"n-1 n-4 n-5",
			"n-1 1/0/0, n-2 0/0/1 node_in_run, n-3 0/0/1 node_in_run, n-4 1/0/0, n-5 1/0/0", broker.OperationSucceeded, "",
		},
		"all": {
			broker.OperationBatches{},
			"",
			[]string{"n-1", "n-2", "n-3", "n-4", "n-5"},
			nil, "",
			"n-1 0/0/1 allocation_live, n-2 0/0/1 allocation_live, n-3 0/0/1 allocation_live, n-4 0/0/1 allocation_live, n-5 0/0/1 allocation_live",
			broker.OperationFailed, broker.OperationTargetGone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := onNodes(t, c.batches)
			w.stolen = c.stolen
			lose := func(node string) {
				if node == c.after {
					w.lost = c.lost
				}
			}
			lose("")
			w.does = func(k *broker.Task) {
				if !slices.Contains(w.took, k.NodeID) {
					t.Errorf("node %s has a task and is not taken", k.NodeID)
				}
				succeed(k)
				lose(k.NodeID)
			}
			w.start()
			w.settle()
			w.stands(c.status, c.code)
			if got := strings.Join(w.asks(), " "); got != c.asked || w.nodes() != c.nodes {
				t.Errorf("asked %q: %s", got, w.nodes())
			}
		})
	}
}

// The nodes of later batches are taken when those begin, and those that have ended are free again.
func TestNodesAreTakenBatchByBatch(t *testing.T) {
	w := onNodes(t, broker.OperationBatches{Canary: 1, Size: 2})
	w.does = func(k *broker.Task) {
		if k.NodeID == "n-2" && !slices.Equal(w.took, []string{"n-1", "n-2", "n-3"}) {
			t.Errorf("taken: %q", w.took)
		}
		if k.NodeID == "n-2" && !slices.Equal(w.free, []string{"n-1"}) {
			t.Errorf("free: %q", w.free)
		}
		succeed(k)
	}
	w.start()
	w.settle()
	w.stands(broker.OperationSucceeded, "")
	if !slices.Equal(w.took, w.o.NodeIDs) {
		t.Errorf("taken: %q", w.took)
	}
}

// A broker that dies at any call of the store asks no node that it has not taken, and none twice.
func TestADeathAtAnyCallKeepsTheNodes(t *testing.T) {
	play := func(t *testing.T, fate chaintest.Fate, at int) int {
		w := onNodes(t, broker.OperationBatches{Canary: 1, Size: 2})
		w.stolen = []string{"n-4"}
		w.does = func(k *broker.Task) {
			if !slices.Contains(w.took, k.NodeID) {
				t.Errorf("node %s has a task and is not taken", k.NodeID)
			}
			if succeed(k); k.NodeID == "n-1" {
				w.lost = []string{"n-2"}
			}
		}
		w.lossy.Fate = func(call int) chaintest.Fate {
			if call == at {
				return fate
			}
			return chaintest.Done
		}
		w.start()
		for range 4 {
			w.settle()
		}
		w.stands(broker.OperationSucceeded, "")
		if got := strings.Join(w.asks(), " "); got != "n-1 n-3 n-5" || w.nodes() != "n-1 1/0/0, n-2 0/0/1 allocation_live, n-3 1/0/0, n-4 0/0/1 node_in_run, n-5 1/0/0" {
			t.Errorf("asked %q: %s", got, w.nodes())
		}
		return w.lossy.Calls()
	}
	calls := min(play(t, chaintest.Done, -1), 400)
	for at := range calls {
		for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
			t.Run(fmt.Sprintf("call %d, fate %d", at, fate), func(t *testing.T) { play(t, fate, at) })
			if t.Failed() {
				return
			}
		}
	}
}

// A node of a group may be in no run when the operation is asked for, and must be in the operation's from the moment in which it
// is taken: one that is in nobody's gets no task. A node outside a group has its lock from the start.
func TestANodeOfAGroupIsInTheRunOfItsOperation(t *testing.T) {
	o := broker.Operation{
		Operation: "demo.look@v1", Target: broker.TargetGroup, RunID: "op-1-1", NodeIDs: []string{"n-1"}, Status: broker.OperationQueued,
		Members: []broker.OperationMember{{NodeID: "n-1", Nodes: 1}},
	}
	at := operation.Place{Node: broker.Node{ID: "n-1", Status: broker.Active, TaskTypes: []string{operation.TaskType + "@1"}}}
	for _, c := range []struct {
		run    string
		begins bool
		fits   bool
	}{
		{"", true, true}, {"op-1-1", true, true}, {"op-2-1", true, false}, {"", false, false}, {"op-1-1", false, true}, {"op-2-1", false, false},
	} {
		at.Run = c.run
		err := operation.Fit(o, o.Parts()[0], broker.Allocation{}, []operation.Place{at}, c.begins)
		if c.fits && err != nil || !c.fits && broker.AsError(err).Code != "node_in_run" {
			t.Errorf("begins %t, in run %q: %v", c.begins, c.run, err)
		}
	}
	at.Run, at.Live = "op-1-1", []broker.Occupant{{Username: "eve"}}
	for _, begins := range []bool{true, false} {
		if err := operation.Fit(o, o.Parts()[0], broker.Allocation{}, []operation.Place{at}, begins); broker.AsError(err).Code != "allocation_live" {
			t.Errorf("somebody is on the node: %v", err)
		}
	}
}
