package nodeapi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// baselines are the node's tasks that take a baseline, oldest first.
func (n *testNode) baselines() []broker.Task {
	n.b.t.Helper()
	tasks, _, err := n.b.db.ListTasks(n.b.t.Context(), store.TaskFilter{NodeID: n.id, Type: "node.validate_clean"})
	must0(n.b.t, err)
	slices.Reverse(tasks)
	return tasks
}

// looks makes the broker read the node's record again.
func (n *testNode) looks() {
	n.b.t.Helper()
	must(n.b.firstContact(n.b.t.Context(), &pki.Peer{
		NodeIdentity: pki.NodeIdentity{NodeID: n.id, Epoch: n.epoch}, Cert: n.cert.Leaf, Serial: pki.Serial(n.cert.Leaf),
	}, true))(n.b.t)
}

// interrupts ends the node's baseline task, like an agent that was killed in the middle of the
// task.
func (n *testNode) interrupts() {
	n.b.t.Helper()
	d, _ := n.fetch("node.validate_clean")
	n.post(n.path("/tasks/"+d.TaskID+"/result"), wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeInterrupted}).into(new(wire.ResultReply))
}

// A reboot in the first minute must not keep a node out forever.
func TestABaselineThatWasInterruptedIsTakenAgain(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.interrupts()
	n.looks()
	if got := n.baselines(); len(got) != 1 {
		t.Fatalf("%d tasks, want no other one at once", len(got))
	}
	b.advance(baselineAgain)
	for range 3 {
		n.looks()
	}
	got := n.baselines()
	if len(got) != 2 || got[1].RetryOf != got[0].ID || got[1].Status != broker.TaskQueued {
		t.Fatalf("the tasks are %+v, want one more, and of the first", got)
	}
	if d, task := n.fetch("node.validate_clean"); d.TaskID != got[1].ID || !strings.Contains(string(task.Params), `"take_baseline":true`) {
		t.Errorf("the node is given %s with %s", d.TaskID, task.Params)
	}
}

func TestABaselineThatIsNeverTakenEndsInQuarantine(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	wait := baselineAgain
	for try := 1; try <= baselineTries; try++ {
		n.interrupts()
		if try == baselineTries {
			break
		}
		b.advance(wait - time.Second)
		n.looks()
		if got := n.baselines(); len(got) != try {
			t.Fatalf("%d tasks within %v of the end of task %d", len(got), wait, try)
		}
		b.advance(time.Second)
		n.looks()
		wait *= 2
	}
	if got := must(b.db.Node(t.Context(), n.id))(t); got.Status != broker.Enrolling {
		t.Fatalf("the node is %s before it was looked at again", got.Status)
	}
	n.looks()
	tasks, node := n.baselines(), must(b.db.Node(t.Context(), n.id))(t)
	if len(tasks) != baselineTries || node.Status != broker.Quarantined {
		t.Fatalf("%d tasks, and the node is %s", len(tasks), node.Status)
	}
	for _, want := range []string{tasks[baselineTries-1].ID, "hostler node baseline retake " + n.id, "hostler node activate " + n.id} {
		if !strings.Contains(node.StatusReason, want) {
			t.Errorf("the reason does not name %s: %s", want, node.StatusReason)
		}
	}
}
