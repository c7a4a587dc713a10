package operation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

// group is an operation on allocations a-1 (n-1, n-2), a-2 (n-3) and a-3 (n-4, n-5).
func group(t testing.TB, b broker.OperationBatches) *world {
	w := five(t, b)
	w.o.Target, w.o.TargetID, w.o.AllocationID = broker.TargetGroup, "all", ""
	w.o.Members = []broker.OperationMember{{AllocationID: "a-1", Nodes: 2}, {AllocationID: "a-2", Nodes: 1}, {AllocationID: "a-3", Nodes: 2}}
	return w
}

// members is what became of the members: succeeded/failed/skipped and code.
func (w *world) members() string {
	var all []string
	for _, m := range w.o.Members {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d/%d/%d %s", m.AllocationID, m.Succeeded, m.Failed, m.Skipped, m.Code)))
	}
	return strings.Join(all, ", ")
}

// A member that is released before its nodes begin is skipped, which is said, and the others go on. What becomes of the
// members is stored while the operation runs.
func TestAReleasedMemberIsSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		batches broker.OperationBatches
		after   string // the node at whose end the allocations are released
		lost    []string
		asked   []string
		members string
		status  broker.OperationStatus
		code    string
	}{
		"between the batches": {
			broker.OperationBatches{Canary: 1, Size: 2},
			"n-1",
			[]string{"a-2"},
			[]string{"n-1", "n-2", "n-4", "n-5"},
			"a-1 2/0/0, a-2 0/0/1 operation_target_gone, a-3 2/0/0", broker.OperationSucceeded, "",
		},
		"one that has ended": {
			broker.OperationBatches{Size: 2},
			"n-2",
			[]string{"a-1"},
			[]string{"n-1", "n-2", "n-3", "n-4", "n-5"},
			"a-1 2/0/0, a-2 1/0/0, a-3 2/0/0", broker.OperationSucceeded, "",
		},
		"all that had not begun": {
			broker.OperationBatches{Size: 2},
			"n-2",
			[]string{"a-2", "a-3"},
			[]string{"n-1", "n-2"},
			"a-1 2/0/0, a-2 0/0/1 operation_target_gone, a-3 0/0/2 operation_target_gone", broker.OperationSucceeded, "",
		},
		"half of it was done": {
			broker.OperationBatches{Size: 1},
			"n-4",
			[]string{"a-3"},
			[]string{"n-1", "n-2", "n-3", "n-4"},
			"a-1 2/0/0, a-2 1/0/0, a-3 1/0/1 operation_target_gone", broker.OperationSucceeded, "",
		},
		"the canary, before all": {
			broker.OperationBatches{Canary: 2},
			"",
			[]string{"a-1"},
			[]string{"n-3", "n-4", "n-5"},
			"a-1 0/0/2 operation_target_gone, a-2 1/0/0, a-3 2/0/0", broker.OperationSucceeded, "",
		},
		"all, before all": {
			broker.OperationBatches{},
			"",
			[]string{"a-1", "a-2", "a-3"},
			nil,
			"a-1 0/0/2 operation_target_gone, a-2 0/0/1 operation_target_gone, a-3 0/0/2 operation_target_gone", broker.OperationFailed, "operation_target_gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := group(t, c.batches)
			release := func(node string) {
				if node == c.after {
					w.lost = c.lost
				}
			}
			release("")
			w.does = func(k *broker.Task) {
				succeed(k)
				release(k.NodeID)
			}
			w.start()
			w.settle()
			w.stands(c.status, c.code)
			if got := w.asks(); !slices.Equal(got, c.asked) || w.members() != c.members {
				t.Errorf("asked %q, members %s", got, w.members())
			}
			if free := slices.Sorted(slices.Values(w.free)); c.code == "" && !slices.Equal(free, w.o.NodeIDs) {
				t.Errorf("free for others: %q", free)
			}
			if c.status == broker.OperationSucceeded && w.o.Skipped() > 0 && w.o.BatchCount() != w.o.Batch {
				t.Errorf("it ended in batch %d of %d", w.o.Batch, w.o.BatchCount())
			}
		})
	}
}

// A failed canary stops the others, and so does the node that takes the place of a released canary.
func TestTheNodeAfterAReleasedCanaryIsTheCanary(t *testing.T) {
	w := group(t, broker.OperationBatches{Canary: 1, MaxFailures: 9})
	w.lost = []string{"a-1"}
	w.does = fail
	w.start()
	w.settle()
	w.stands(broker.OperationFailed, "batch_stopped")
	if got := w.asks(); !slices.Equal(got, []string{"n-3"}) || w.members() != "a-1 0/0/2 operation_target_gone, a-2 0/1/0 step_failed, a-3 0/0/0" {
		t.Errorf("asked %q: %s", got, w.members())
	}
}

// The tasks of a member that is released meanwhile are withdrawn, and its nodes have failed. Its nodes are free at once,
// while the others are at work.
func TestTheTasksOfAReleasedMemberAreWithdrawn(t *testing.T) {
	w := group(t, broker.OperationBatches{})
	w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
	w.start()
	w.settleFor(time.Minute)
	w.lost = []string{"a-2"}
	w.settleFor(time.Minute)
	if k := w.tasks["op-1-1/n-3"]; !k.Status.Ended() || !slices.Equal(w.free, []string{"n-3"}) || w.ends != 0 || w.members() != "a-1 0/0/0, a-2 0/1/0 operation_target_gone, a-3 0/0/0" {
		t.Errorf("task %s, free %q, ended %d times: %s", k.Status, w.free, w.ends, w.members())
	}
	w.does = nil
	w.settle()
	w.stands(broker.OperationFailed, "operation_target_gone")
	if w.members() != "a-1 2/0/0, a-2 0/1/0 operation_target_gone, a-3 2/0/0" || len(w.asked) != 5 {
		t.Errorf("asked %q: %s", w.asked, w.members())
	}
}

// A cancel leaves the members that had not begun untouched.
func TestACancelOfAGroupCountsItsMembers(t *testing.T) {
	w := group(t, broker.OperationBatches{Size: 2})
	w.does = func(k *broker.Task) {
		if k.Status = broker.TaskDispatched; k.NodeID == "n-1" {
			succeed(k)
		}
	}
	w.start()
	w.settleFor(time.Minute)
	w.o.CanceledBy = "ada"
	w.settle()
	w.stands(broker.OperationCanceled, "canceled")
	if w.members() != "a-1 1/1/0 canceled, a-2 0/0/0, a-3 0/0/0" {
		t.Error(w.members())
	}
}

// A broker that dies at any call of the store asks no node of a released member, and gives no other node two tasks.
func TestADeathAtAnyCallKeepsTheMembers(t *testing.T) {
	play := func(t *testing.T, fate chaintest.Fate, at int) int {
		w := group(t, broker.OperationBatches{Canary: 1, Size: 2})
		w.does = func(k *broker.Task) {
			if succeed(k); k.NodeID == "n-2" {
				w.lost = []string{"a-1", "a-3"} // a-1 has ended
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
		free := slices.Sorted(slices.Values(w.free))
		if got := w.asks(); !slices.Equal(got, []string{"n-1", "n-2", "n-3"}) || !slices.Equal(slices.Compact(free), w.o.NodeIDs) {
			t.Errorf("asked %q, free %q", got, free)
		}
		if w.members() != "a-1 2/0/0, a-2 1/0/0, a-3 0/0/2 operation_target_gone" {
			t.Error(w.members())
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
