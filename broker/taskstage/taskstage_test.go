package taskstage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// one answers with a fixed task.
type one struct {
	task  broker.Task
	err   error
	asked []Task
}

func (o *one) Request(_ context.Context, t Task) (broker.Task, error) {
	o.asked = append(o.asked, t)
	return o.task, o.err
}

func (o *one) Withdraw(context.Context, string, string, string) ([]broker.Task, error) {
	return nil, errors.New("nobody withdraws here")
}

func TestATaskIsWaitedForUntilItHasEnded(t *testing.T) {
	for _, c := range []struct {
		status broker.TaskStatus
		waits  bool
	}{
		{broker.TaskQueued, true},
		{broker.TaskDispatched, true},
		{broker.TaskSucceeded, false},
		{broker.TaskFailed, false},
		{broker.TaskCanceled, false},
		{broker.TaskExpired, false},
	} {
		o := &one{task: broker.Task{ID: "t-1", NodeID: "n-1", Type: "node.drain", Status: c.status, Progress: &broker.Progress{CurrentStepName: "kill\x1b[2J"}}}
		k, err := Await(t.Context(), o, Task{Key: "k", NodeID: "n-1", Type: "node.drain"})
		if (err != nil) != c.waits || k.ID != "t-1" || len(o.asked) != 1 {
			t.Errorf("%s: %+v, %v", c.status, k, err)
		}
		if Working(err) != (c.status == broker.TaskDispatched) {
			t.Errorf("%s: its agent works on it: %v", c.status, Working(err))
		}
		if c.waits && (!strings.Contains(err.Error(), "task t-1 (node.drain) is "+string(c.status)) || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%s: waits with %q", c.status, err)
		}
	}
}

// A task with an unknown end never counts as a success, nor as a failure of its own.
func TestHowATaskEndedIsJudged(t *testing.T) {
	const class = chain.Class(broker.ResidueFound)
	for _, c := range []struct {
		name string
		task broker.Task
		want chain.Class // empty: no failure
		code string
		says string
	}{
		{"it succeeded", broker.Task{Status: broker.TaskSucceeded}, "", "", ""},
		{"it failed", broker.Task{Status: broker.TaskFailed, Outcome: "failed", Code: "disk_busy", Message: "sda \x1b[31mis busy"}, class, "disk_busy", "ended failed: disk_busy: sda"},
		{"it was refused", broker.Task{Status: broker.TaskFailed, Outcome: "refused", Code: "not_allowed"}, class, "not_allowed", "ended refused: not_allowed"},
		{"it was cancelled without a code", broker.Task{Status: broker.TaskCanceled}, class, "task_canceled", "ended canceled: task_canceled"},
		{"nobody took it", broker.Task{Status: broker.TaskExpired}, silent, "agent_silent", "did not report the outcome of task"},
		{"its outcome is unknown", broker.Task{Status: broker.TaskFailed, Code: "outcome_unknown"}, silent, "agent_silent", "did not report the outcome of task"},
		{"its node enrolled again", broker.Task{Status: broker.TaskFailed, Code: "node_reenrolled"}, ambiguity, "node_reenrolled", "enrolled again"},
	} {
		err := Judge(c.task, class)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		f, ok := errors.AsType[*chain.Failure](err)
		if !ok || f.Class != c.want || f.Code != c.code || !strings.Contains(f.Message, c.says) || strings.Contains(f.Message, "\x1b") {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
}

func TestRecordsThatAreAwayAreWaitedForAndARefusalIsFinal(t *testing.T) {
	if err := Records(nil); err != nil {
		t.Error(err)
	}
	for kind, final := range map[broker.Kind]bool{broker.Unavailable: false, broker.Refused: true, broker.NotFound: true, broker.Invalid: true, broker.Forbidden: true} {
		err := Records(broker.Errorf(kind, "some_code", "cannot"))
		f, failed := errors.AsType[*chain.Failure](err)
		if failed != final || failed && (f.Code != "some_code" || f.Class != chain.Class(broker.InputConfigError)) {
			t.Errorf("%v: %v", kind, err)
		}
	}
	if other := errors.New("a bug"); !errors.Is(Records(other), other) {
		t.Error("an error of no kind is not passed on")
	}
}
