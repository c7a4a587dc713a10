package agent

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

func TestANodeEnrolsAndRunsATaskWithEvidence(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.heartbeat_check", `{}`)
		if r := l.broker.Wait(q, time.Minute); r.Outcome != taskcatalog.OutcomeSucceeded {
			t.Fatalf("%+v", r)
		}
		if q.Evidence == nil || q.Evidence.AgentVersion != "1.2.3-test" {
			t.Fatalf("evidence: %+v", q.Evidence)
		}
	})
}

// The sweep kills the agent at each boundary of a task's life, starts a new agent on the same disk,
// and checks that the task ended exactly once, with a true outcome.
func TestKilledAtAnyBoundaryATaskEndsOnceInATrueState(t *testing.T) {
	for _, test := range []struct {
		boundary string
		outcome  taskcatalog.Outcome
		runs     int64
	}{
		{"before accept", taskcatalog.OutcomeSucceeded, 1},
		{"after accept", taskcatalog.OutcomeSucceeded, 1},
		{"after start", taskcatalog.OutcomeInterrupted, 0},
		{"mid-run", taskcatalog.OutcomeInterrupted, 1},
		{"before finish", taskcatalog.OutcomeInterrupted, 1},
		{"after finish", taskcatalog.OutcomeSucceeded, 1},
		{"after report", taskcatalog.OutcomeSucceeded, 1},
	} {
		t.Run(test.boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				var runs atomic.Int64
				var first *process
				died := make(chan struct{})
				// A dead process goes no further: the goroutine that reaches the boundary ends.
				dieAt := func(boundary, _ string) {
					if boundary != test.boundary {
						return
					}
					select {
					case <-died:
						return
					default:
						close(died)
						first.kill()
						runtime.Goexit()
					}
				}
				l.handle("node.drain@1", tasks.Handler{
					Do: func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
						runs.Add(1)
						select {
						case <-died:
						default:
							if test.boundary == "mid-run" {
								close(died)
								first.kill()
								<-ctx.Done()
								return nil, taskcatalog.Report{}, ctx.Err()
							}
						}
						return drain(ctx, r)
					},
					Probe: func(context.Context, *host.Host, *taskcatalog.Task) string { return "half drained" },
				})
				first = l.start(func(p *process) { first, p.at = p, dieAt })
				q := l.broker.Enqueue(l.nodeID(first), "node.drain", `{}`)
				<-died
				second := l.start()
				r := l.broker.Wait(q, 10*time.Minute)
				if r.Outcome != test.outcome || runs.Load() != test.runs {
					t.Errorf("ended %s (%s) after %d runs, want %s after %d", r.Outcome, r.Message, runs.Load(), test.outcome, test.runs)
				}
				// Delivered again, the task does not run again and its result is the same.
				l.broker.Requeue(q)
				l.until("the ledger is settled", func() bool { w, err := second.ledger.Unreported(); return err == nil && len(w) == 0 })
				if e, known, err := second.ledger.Get(q.ID); err != nil || !known || e.Result.Outcome != test.outcome {
					t.Errorf("the ledger says %+v %v %v", e.Result, known, err)
				}
				if runs.Load() != test.runs {
					t.Errorf("ran %d times after a repeat", runs.Load())
				}
			})
		})
	}
}
