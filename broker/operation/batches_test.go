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

func TestTheBatchesOfPlaces(t *testing.T) {
	for want, b := range map[string]broker.OperationBatches{
		"0 0 0 0 0 of 1": {}, "0 1 1 1 1 of 2": {Canary: 1}, "0 0 1 1 2 of 3": {Size: 2}, "0 1 1 2 2 of 3": {Canary: 1, Size: 2},
		"0 0 0 0 0 of 1 ": {Canary: 9, Size: 1}, "0 1 2 3 4 of 5": {Size: 1},
	} {
		var got []string
		for place := range 5 {
			got = append(got, fmt.Sprint(b.Of(place)))
		}
		if is := fmt.Sprintf("%s of %d", strings.Join(got, " "), b.Count(5)); is != strings.TrimSpace(want) {
			t.Errorf("%+v: %s, want %s", b, is, want)
		}
	}
}

func five(t testing.TB, b broker.OperationBatches) *world {
	w := newWorld(t, "n-1", "n-2", "n-3", "n-4", "n-5")
	w.o.Batches = b
	return w
}

// asks are the nodes that have been asked for a task, in order.
func (w *world) asks() (nodes []string) {
	for _, key := range w.asked {
		nodes = append(nodes, strings.TrimPrefix(key, w.o.RunID+"/"))
	}
	return nodes
}

// A batch begins when all tasks of the one before have ended, and not before.
func TestABatchWaitsForTheOneBefore(t *testing.T) {
	w := five(t, broker.OperationBatches{Canary: 1, Size: 2})
	free := map[string]bool{}
	w.does = func(k *broker.Task) {
		if k.Status = broker.TaskDispatched; free[k.NodeID] {
			succeed(k)
		}
	}
	w.start()
	for _, c := range []struct {
		ends  string
		asked []string
		batch int
	}{
		{"", []string{"n-1"}, 0},
		{"n-1", []string{"n-1", "n-2", "n-3"}, 2},
		{"n-3", []string{"n-1", "n-2", "n-3"}, 2},
		{"n-2", []string{"n-1", "n-2", "n-3", "n-4", "n-5"}, 3},
		{"n-4", []string{"n-1", "n-2", "n-3", "n-4", "n-5"}, 3},
	} {
		free[c.ends] = true
		w.settleFor(time.Hour)
		if got := w.asks(); !slices.Equal(got, c.asked) || w.o.Batch != c.batch || w.ends != 0 {
			t.Fatalf("after %q: asked %q, in batch %d, ended %d times", c.ends, got, w.o.Batch, w.ends)
		}
	}
	free["n-5"] = true
	w.settle()
	w.stands(broker.OperationSucceeded, "")
}

// Where too many nodes have failed, the others get no task: the operation says so, and how many failed.
func TestFailuresStopTheBatchesAfterThem(t *testing.T) {
	for name, c := range map[string]struct {
		batches broker.OperationBatches
		fail    string
		asked   int
		code    string
	}{
		"a canary, whatever the bound": {broker.OperationBatches{Canary: 1, Size: 2, MaxFailures: 3}, "n-1", 1, "batch_stopped"},
		"the first of a batch":         {broker.OperationBatches{Canary: 1, Size: 2}, "n-2", 3, "batch_stopped"},
		"fewer than the bound":         {broker.OperationBatches{Size: 2, MaxFailures: 2}, "n-1", 5, "step_failed"},
		"as many as the bound":         {broker.OperationBatches{Size: 2, MaxFailures: 2}, "n-1 n-3", 4, "batch_stopped"},
		"in the last batch":            {broker.OperationBatches{Size: 2}, "n-5", 5, "step_failed"},
		"without batches":              {broker.OperationBatches{}, "n-1 n-2", 5, "step_failed"},
	} {
		w := five(t, c.batches)
		w.does = func(k *broker.Task) {
			if strings.Contains(c.fail, k.NodeID) {
				fail(k)
			} else {
				succeed(k)
			}
		}
		w.start()
		w.settle()
		w.stands(broker.OperationFailed, c.code)
		if len(w.asked) != c.asked || c.code == "batch_stopped" && !strings.Contains(w.o.Message, "failed, and none of the other") {
			t.Errorf("%s: asked %q: %s", name, w.asked, w.o.Message)
		}
		if c.code == "batch_stopped" && len(w.o.Failure()) == 0 {
			t.Errorf("%s: nothing is told to the project", name)
		}
	}
}

// A batch that would be refused now is held back: no node of it is asked for anything, and the others ended well.
func TestARefusalHoldsTheNextBatchBack(t *testing.T) {
	w := five(t, broker.OperationBatches{Canary: 1, Size: 2})
	w.unbegun = func(next []string) error {
		if slices.Contains(next, "n-4") && len(next) < 5 {
			return broker.Errorf(broker.Refused, "operation_denied", "not now")
		}
		return nil
	}
	w.start()
	w.settle()
	w.stands(broker.OperationFailed, "operation_denied")
	if got := w.asks(); !slices.Equal(got, []string{"n-1", "n-2", "n-3"}) || !strings.Contains(w.o.Message, "batch 3 of 3 did not begin: not now") {
		t.Errorf("asked %q: %s", got, w.o.Message)
	}
	for key, k := range w.tasks {
		if k.Status != broker.TaskSucceeded {
			t.Errorf("%s is %s", key, k.Status)
		}
	}
}

// The tasks that are under way when a failure stops the batches end by themselves.
func TestAStopWithdrawsNoTask(t *testing.T) {
	w := five(t, broker.OperationBatches{Size: 2})
	w.does = func(k *broker.Task) {
		if k.NodeID == "n-1" {
			fail(k)
		} else if k.Status = broker.TaskDispatched; w.clock.Now().Sub(k.IssuedAt) > time.Hour {
			succeed(k)
		}
	}
	w.start()
	w.settleFor(30 * time.Minute)
	if len(w.asked) != 2 || w.ends != 0 {
		t.Errorf("asked %q, ended %d times", w.asked, w.ends)
	}
	w.settleFor(time.Hour)
	w.settle()
	w.stands(broker.OperationFailed, "batch_stopped")
	if k := w.tasks["op-1-1/n-2"]; k.CancelRequested || k.Status != broker.TaskSucceeded {
		t.Errorf("%+v", k)
	}
}

// How a task ended is kept: it is not asked for again while other nodes are at work.
func TestAnEndedTaskIsReadOnce(t *testing.T) {
	w := newWorld(t, "n-1", "n-2")
	w.does = func(k *broker.Task) {
		if k.NodeID == "n-1" {
			succeed(k)
		} else {
			k.Status = broker.TaskDispatched
		}
	}
	w.start()
	w.settleFor(time.Minute)
	before := w.reads["op-1-1/n-1"]
	w.settleFor(time.Hour)
	if after := w.reads["op-1-1/n-1"]; after != before || w.reads["op-1-1/n-2"] < 100 {
		t.Errorf("it was read %d times, and then %d; the open one %d times", before, after, w.reads["op-1-1/n-2"])
	}
}

// A cancel in the middle leaves the nodes of later batches untouched.
func TestACancelBeginsNoFurtherBatch(t *testing.T) {
	w := five(t, broker.OperationBatches{Size: 2})
	w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
	w.start()
	w.settleFor(time.Minute)
	w.o.CanceledBy = "ada"
	w.settle()
	w.stands(broker.OperationCanceled, "canceled")
	if len(w.asked) != 2 {
		t.Errorf("asked %q", w.asked)
	}
}

// A broker that dies at any call of the store skips no batch and gives no node two tasks.
func TestADeathAtAnyCallKeepsTheBatches(t *testing.T) {
	for name, c := range map[string]struct {
		fails  string
		asked  []string
		status broker.OperationStatus
		code   string
	}{
		"all do well":  {"", []string{"n-1", "n-2", "n-3", "n-4", "n-5"}, broker.OperationSucceeded, ""},
		"one stops it": {"n-3", []string{"n-1", "n-2", "n-3"}, broker.OperationFailed, "batch_stopped"},
	} {
		play := func(t *testing.T, fate chaintest.Fate, at int) int {
			w := five(t, broker.OperationBatches{Canary: 1, Size: 2})
			open := 0
			w.does = func(k *broker.Task) {
				for key, other := range w.tasks {
					if place := slices.Index(w.o.NodeIDs, other.NodeID); !other.Status.Ended() &&
						w.o.Batches.Of(place) < w.o.Batches.Of(slices.Index(w.o.NodeIDs, k.NodeID)) {
						open++
						t.Errorf("%s has a task before %s has ended", k.NodeID, key)
					}
				}
				if k.NodeID == c.fails {
					fail(k)
				} else {
					succeed(k)
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
			w.stands(c.status, c.code)
			if got := w.asks(); !slices.Equal(got, c.asked) || open > 0 {
				t.Errorf("asked %q", got)
			}
			return w.lossy.Calls()
		}
		calls := min(play(t, chaintest.Done, -1), 400)
		for at := range calls {
			for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
				t.Run(fmt.Sprintf("%s, call %d, fate %d", name, at, fate), func(t *testing.T) { play(t, fate, at) })
				if t.Failed() {
					return
				}
			}
		}
	}
}
