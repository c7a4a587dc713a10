package adminapi_test

import (
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// openTasks are the open tasks of a node.
func openTasks(t *testing.T, b *servertest.Broker, node string) []api.Task {
	t.Helper()
	return servertest.Must[api.TaskList](t, b, http.MethodGet, "/tasks?status=open&node="+node, nil).Items
}

// Before retirement the node becomes offline, so that nobody gets the node before its agent is
// heard. The agent is told to take the mark back. A repeated request starts no second task.
func TestADrainIsCalledOff(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	drain := act(t, b, "h1", "drain", api.NodeAction{}).Task
	d, running := n.Next(t) // the agent has the task
	off := act(t, b, "h1", "activate", api.NodeAction{Reason: "not this one"})
	if off.Node.Status != "offline" || off.Node.StatusReason != "not this one" || off.Task == nil || off.Task.ID == drain.ID {
		t.Fatalf("it is %+v, with %+v", off.Node, off.Task)
	}
	if k := servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+drain.ID, nil); !k.CancelRequested {
		t.Errorf("the drain is %s", k.Status)
	}
	// The old drain's end moves the node: until that end is known, nobody begins another drain.
	refusedAction(t, b, b.Token, "h1", "drain", api.NodeAction{}, "task_ending")
	// The watch may bring a heard node into service at any moment.
	if got := show(t, b, "h1").Status; got != "offline" && got != "active" {
		t.Errorf("it is %s", got)
	}
	if again := act(t, b, "h1", "activate", api.NodeAction{}); again.Task == nil || again.Task.ID != off.Task.ID {
		t.Errorf("asked again: %s, %+v", again.Node.Status, again.Task)
	}
	// The agent's late success of the drain no longer retires the node.
	n.Finish(t, d, running, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})
	if got := show(t, b, "h1").Status; got == "retired" || got == "draining" {
		t.Errorf("it is %s", got)
	}
	d, resumes := n.Next(t)
	if resumes.TaskID != off.Task.ID {
		t.Fatalf("the next task is %s", resumes.Type)
	}
	n.Finish(t, d, resumes, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{}, taskcatalog.Report{})
	if left := openTasks(t, b, "h1"); len(left) != 0 {
		t.Errorf("open is %+v", left)
	}
}

// A node that nobody ever looked at would come into service by its heartbeats.
func TestTheDrainOfANodeThatWasNeverLetInIsNotCalledOff(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}) // the baseline is not taken
	act(t, b, "h1", "quarantine", api.NodeAction{Reason: "what is it"})
	refusedAction(t, b, b.Token, "h1", "activate", api.NodeAction{}, "not_enrolled")
	act(t, b, "h1", "drain", api.NodeAction{})
	refusedAction(t, b, b.Token, "h1", "activate", api.NodeAction{}, "not_enrolled")
	if got := show(t, b, "h1"); got.Status != "draining" {
		t.Errorf("it is %s", got.Status)
	}
}

// A turnover's drain belongs to the turnover: nobody can call the drain off, and an attempt changes
// nothing.
func TestTheDrainOfATurnoverIsNotCalledOff(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	w := &walker{Broker: b, Node: n, t: t}
	w.begins("soft_reset")
	servertest.Eventually(t, "the drain to be asked for", func() bool { return len(openTasks(t, b, "h1")) == 1 })
	refusedAction(t, b, b.Token, "h1", "activate", api.NodeAction{}, "turnover_owed")
	refusedAction(t, b, b.Token, "h1", "activate", api.NodeAction{Override: true, Reason: "r"}, "transition_refused")
	if open := openTasks(t, b, "h1"); len(open) != 1 || open[0].Type != "node.drain" || open[0].CancelRequested {
		t.Errorf("open is %+v", open)
	}
	if got := show(t, b, "h1"); got.Status != "draining" || !got.TurnoverOwed {
		t.Errorf("it is %s, owed %v", got.Status, got.TurnoverOwed)
	}
}

// A removal that no agent has begun is taken back at once. If an agent has the task, the task's end
// decides, unless an admin forces the matter.
func TestARemovalIsTakenBack(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	force := api.NodeAction{Force: true, Reason: "r"}
	remove := func() *api.Task {
		t.Helper()
		got := act(t, b, n.NodeID, "remove", api.NodeAction{})
		if got.Node.Status != "removing" {
			t.Fatalf("it is %s", got.Node.Status)
		}
		return got.Task
	}
	act(t, b, "h1", "retire", force)
	for _, open := range openTasks(t, b, "h1") {
		servertest.Must[api.Task](t, b, http.MethodPost, "/tasks/"+open.ID+"/cancel", api.ReasonBody{})
	}
	queued := remove()
	if got := act(t, b, "h1", "retire", api.NodeAction{Reason: "wrong one"}); got.Node.Status != "retired" || got.Node.StatusReason != "wrong one" || got.Task != nil {
		t.Errorf("before its agent began it is %+v", got)
	}
	if k := servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+queued.ID, nil); k.Status != "canceled" {
		t.Errorf("the uninstall is %s", k.Status)
	}

	for _, row := range []struct {
		outcome taskcatalog.Outcome
		result  any
		in      api.NodeAction
		at      string // at once
		then    string
	}{
		{taskcatalog.OutcomeCanceled, nil, api.NodeAction{}, "removing", "retired"},
		{taskcatalog.OutcomeSucceeded, taskcatalog.UninstallResult{Removes: []string{}}, force, "retired", "retired"},
		{taskcatalog.OutcomeSucceeded, taskcatalog.UninstallResult{Removes: []string{}}, api.NodeAction{}, "removing", "deleted"},
	} {
		k := remove()
		d, task := n.Next(t)
		got := act(t, b, n.NodeID, "retire", row.in)
		if got.Node.Status != row.at || (got.Task != nil) != (row.at == "removing") {
			t.Errorf("while its agent is at it: %s, %+v", got.Node.Status, got.Task)
		}
		if reply := n.Progress(t, d, wire.ProgressRequest{TotalSteps: 1, CurrentStepName: "x", StepStatus: "running", StepStartedAt: b.Now()}); len(reply.Cancel) != 1 || reply.Cancel[0] != k.ID {
			t.Errorf("the agent is told to stop %v", reply.Cancel)
		}
		n.Finish(t, d, task, row.outcome, row.result, taskcatalog.Report{})
		if got := show(t, b, n.NodeID); got.Status != row.then {
			t.Errorf("after %s it is %s, want %s", row.outcome, got.Status, row.then)
		}
	}
}
