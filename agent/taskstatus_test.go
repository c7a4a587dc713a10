package agent

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

// asked returns the node's answer about a task.
func (l *lab) asked(p *process, taskID string) taskcatalog.TaskProbeResult {
	l.t.Helper()
	r := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.task_probe", `{"task_id":"`+taskID+`"}`), time.Minute)
	var res taskcatalog.TaskProbeResult
	if err := json.Unmarshal(r.Result, &res); err != nil || r.Outcome != taskcatalog.OutcomeSucceeded {
		l.t.Fatalf("%+v, %v", r, err)
	}
	return res
}

func TestANodeSaysWhatBecameOfATask(t *testing.T) {
	inBubble(t, func(l *lab) {
		probe := func(context.Context, *host.Host, *taskcatalog.Task) string { return "half of it is there" }
		l.handle("node.drain@1", tasks.Handler{Do: untilStopped, Probe: probe})
		real, _ := tasks.Lookup("node.task_probe", 1)
		l.handle("node.task_probe@1", real)
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.until("it runs", func() bool {
			e, ok, err := p.ledger.Get(q.ID)
			return err == nil && ok && !e.StartedAt.IsZero()
		})
		if got := l.asked(p, q.ID); !got.Known || !got.Running || got.State != "started" || got.Found != "" {
			t.Errorf("while it runs: %+v", got)
		}
		p.kill()
		<-p.ended
		p = l.start()
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
		if got := l.asked(p, q.ID); !got.Known || got.Running || got.State != "finished" || got.Outcome != taskcatalog.OutcomeInterrupted || got.Found != "half of it is there" {
			t.Errorf("after a crash: %+v", got)
		}
		if got := l.asked(p, "t-never"); got.Known || got.Running {
			t.Errorf("of one that it never had: %+v", got)
		}
	})
}

func TestANodeSaysWhichTasksItTook(t *testing.T) {
	inBubble(t, func(l *lab) {
		real, _ := tasks.Lookup("node.task_list", 1)
		l.handle("node.task_list@1", real)
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
		ended := l.broker.Wait(q, time.Minute)
		r := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.task_list", `{}`), time.Minute)
		var res taskcatalog.TaskListResult
		if err := json.Unmarshal(r.Result, &res); err != nil || r.Outcome != taskcatalog.OutcomeSucceeded {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(res.Tasks) != 2 || res.Tasks[0].Type != "node.task_list" || res.Tasks[1].TaskID != q.ID || res.Tasks[1].State != "finished" || res.Tasks[1].Outcome != ended.Outcome {
			t.Errorf("%+v", res)
		}
	})
}
