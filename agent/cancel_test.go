package agent

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// untilStopped works until the context ends.
func untilStopped(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
	<-ctx.Done()
	return nil, taskcatalog.Report{}, context.Cause(ctx)
}

func TestACancelStopsWhatRunsAndWhatWaits(t *testing.T) {
	inBubble(t, func(l *lab) {
		started := make(chan struct{}, 2)
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			started <- struct{}{}
			return untilStopped(ctx, r)
		}))
		p := l.start()
		running := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		<-started
		l.broker.Cancel(running)
		asked := time.Now()
		wantResult(t, l.broker.Wait(running, time.Minute), taskcatalog.OutcomeCanceled, taskcatalog.CodeCanceled)
		if took := time.Since(asked); took > wire.ProgressTick {
			t.Errorf("the cancel took %s", took)
		}
	})
}

// Programs started by a handler end with the task, grandchildren included. The test runs in real
// time, because processes know no other.
func TestACancelEndsTheWholeProcessGroup(t *testing.T) {
	sleeper, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatalf("this test needs sleep (package coreutils): %v", err)
	}
	l := newLab(t)
	pids := make(chan int, 1)
	l.handle("node.drain@1", do(func(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
		cmd := exec.CommandContext(ctx, sleeper, "600")
		ownGroup(cmd)
		if err := cmd.Start(); err != nil {
			return nil, taskcatalog.Report{}, err
		}
		pids <- cmd.Process.Pid
		return nil, taskcatalog.Report{}, cmd.Wait()
	}))
	p := l.start()
	q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
	pid := <-pids
	l.broker.Cancel(q)
	wantResult(t, l.broker.Wait(q, 30*time.Second), taskcatalog.OutcomeCanceled, taskcatalog.CodeCanceled)
	if alive(pid) {
		t.Fatalf("process group %d is still there", pid)
	}
}

func TestWorkThatWasDoneIsDoneThoughACancelCame(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			<-ctx.Done()
			return drain(ctx, r)
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.until("it runs", func() bool { return len(p.seen().Running) == 1 })
		l.broker.Cancel(q)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeSucceeded, "")
	})
}

func TestAHandlerThatDoesNotStopEndsTheAgentAndIsReportedAsInterrupted(t *testing.T) {
	inBubble(t, func(l *lab) {
		hang := make(chan struct{})
		defer close(hang)
		l.handle("node.drain@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			<-hang
			return nil, taskcatalog.Report{}, nil
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		<-p.ended
		if taskcatalog.CodeOf(p.err, "") != taskcatalog.CodeDeadlineExceeded {
			t.Fatalf("the agent ended with %v", p.err)
		}
		p.quit()
		l.start()
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
	})
}

func TestAStoppedAgentReportsWhatItInterrupted(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(untilStopped))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.until("it runs", func() bool { return len(p.seen().Running) == 1 })
		asked := time.Now()
		p.quit()
		if took := time.Since(asked); p.err != nil || took > 10*time.Second {
			t.Fatalf("stopped with %v after %s", p.err, took)
		}
		wantResult(t, l.broker.Wait(q, time.Second), taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
	})
}
