package agent

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

// unfinished works until the context ends, and leaves the rest to the agent's next process if the
// agent stops.
func unfinished(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
	<-ctx.Done()
	if context.Cause(ctx) == host.ErrStopping {
		return nil, taskcatalog.Report{}, host.ErrUnfinished
	}
	return nil, taskcatalog.Report{}, context.Cause(ctx)
}

func TestATaskThatGoesOnInTheNextProcessIsStillCanceledAndStillEndsInTime(t *testing.T) {
	for _, cancel := range []bool{true, false} {
		inBubble(t, func(l *lab) {
			resumed := make(chan struct{}, 1)
			l.handle("node.drain@1", tasks.Handler{Do: unfinished, Inside: true, Resume: func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
				resumed <- struct{}{}
				return unfinished(ctx, r)
			}})
			p := l.start()
			q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
			l.until("it runs", func() bool { return len(p.seen().Running) == 1 })
			began := time.Now()
			time.Sleep(4 * time.Minute)
			p.quit()
			l.start()
			<-resumed
			code, outcome := taskcatalog.CodeDeadlineExceeded, taskcatalog.OutcomeFailed
			if cancel {
				l.broker.Cancel(q)
				code, outcome = taskcatalog.CodeCanceled, taskcatalog.OutcomeCanceled
			}
			wantResult(t, l.broker.Wait(q, time.Hour), outcome, code)
			if took := time.Since(began); took > 11*time.Minute || cancel && took > 5*time.Minute {
				t.Errorf("it ended after %s", took)
			}
		})
	}
}

func TestATaskThatGoesOnAfterAKillEndsOnce(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", tasks.Handler{Do: unfinished, Inside: true, Resume: drain})
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.until("it runs", func() bool { return len(p.seen().Running) == 1 })
		p.kill()
		l.start()
		wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeSucceeded, "")
	})
}

func TestATaskWithAPartThatDoesNotStopEndsTheProcessAndGoesOnInTheNext(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", tasks.Handler{Inside: true, Resume: drain, Do: func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return nil, taskcatalog.Report{}, host.ErrStuck
		}})
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		<-p.ended
		if taskcatalog.CodeOf(p.err, "") != taskcatalog.CodeDeadlineExceeded {
			t.Fatalf("the agent ended with %v", p.err)
		}
		p.quit()
		l.start()
		wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeSucceeded, "")
	})
}
