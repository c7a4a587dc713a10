package agent

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Progress is sent when a step changes, at most once a second, and in any case often enough to keep
// the lease even if a request is lost.
const (
	progressTick = wire.ProgressTick * 2 / 3
	progressGap  = time.Second
)

// progress is how far a run is. Handlers set it and never wait until it is sent.
type progress struct {
	*progressState
}

type progressState struct {
	mu      sync.Mutex
	now     wire.ProgressRequest
	changed chan struct{}
}

func newProgress(now time.Time) progress {
	return progress{&progressState{
		changed: make(chan struct{}, 1),
		now:     wire.ProgressRequest{StepStatus: "running", StepStartedAt: now.UTC()},
	}}
}

// set is called by handlers.
func (p progress) set(step string, index, total, percent int, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step = taskcatalog.Clean(step, 128)
	if step != p.now.CurrentStepName {
		p.now.StepStartedAt = time.Time{} // filled in when sent
	}
	p.now.CurrentStepName, p.now.CurrentStepIndex, p.now.TotalSteps = step, index, total
	p.now.StepPercent, p.now.Message = min(max(percent, 0), 100), taskcatalog.Clean(message, taskcatalog.MaxText)
	wake(p.changed)
}

// snapshot returns the progress to send at the time now.
func (p progress) snapshot(now time.Time) wire.ProgressRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.StepStartedAt.IsZero() {
		p.now.StepStartedAt = now.UTC()
	}
	return p.now
}

// reportProgress sends a run's progress until stop is called. stop waits for the last request.
func (a *Agent) reportProgress(r *run) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressTick)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-r.changed:
			}
			a.sendProgress(ctx, r)
			if sleep(ctx, progressGap) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// sendProgress renews the lease. A failed request is not retried; the next one follows. The task
// goes on meanwhile, and after a lost lease the broker delivers the task again.
func (a *Agent) sendProgress(ctx context.Context, r *run) {
	now := r.snapshot(a.Now())
	if now.Attempt = int(r.attempt.Load()); now.Attempt == 0 {
		return // not delivered yet: there is no lease
	}
	client, err := a.uplink()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, progressTick)
	defer cancel()
	reply, err := client.Progress(ctx, r.task.TaskID, now)
	if err != nil {
		if ctx.Err() == nil {
			a.logTask(r.task).Warn("cannot report progress", zap.Error(err))
		}
		return
	}
	a.cancelTasks(reply.Cancel)
}
