package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAResultIsSentUntilTheBrokerHasIt(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		id := l.nodeID(p)
		lost := 0
		l.broker.Lock()
		l.broker.LoseAnswer = func(route string) bool {
			if route == "result" {
				lost++
			}
			return route == "result" && lost <= 3
		}
		l.broker.Unlock()
		q := l.broker.Enqueue(id, "node.drain", `{}`)
		l.until("nothing is left to report", func() bool {
			w, err := p.ledger.Unreported()
			e, known, _ := p.ledger.Get(q.ID)
			return err == nil && len(w) == 0 && known && e.Reported
		})
		if q.Results != 4 {
			t.Errorf("reported %d times", q.Results)
		}
	})
}

func TestAResultSurvivesABrokerAwayForThreeDays(t *testing.T) {
	inBubble(t, func(l *lab) {
		release := make(chan struct{})
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			<-release
			return drain(ctx, r)
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.until("it runs", func() bool { return len(p.seen().Running) == 1 })
		l.broker.GoAway()
		close(release)
		time.Sleep(36 * time.Hour)
		p.quit()
		time.Sleep(36 * time.Hour)
		l.start()
		l.broker.ComeBack()
		wantResult(t, l.broker.Wait(q, 5*time.Minute), taskcatalog.OutcomeSucceeded, "")
	})
}

func TestABrokerThatRefusesAResultDoesNotKeepOthersBack(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		id := l.nodeID(p)
		refuse := true
		l.broker.Lock()
		l.broker.Before = refuseWhile("/tasks/t-1/result", &refuse, 409, "evidence_untrusted")
		l.broker.Unlock()
		first, second := l.broker.Enqueue(id, "node.drain", `{}`), l.broker.Enqueue(id, "node.heartbeat_check", `{}`)
		wantResult(t, l.broker.Wait(second, time.Minute), taskcatalog.OutcomeSucceeded, "")
		l.broker.Lock()
		refuse = false
		l.broker.Unlock()
		wantResult(t, l.broker.Wait(first, time.Hour), taskcatalog.OutcomeSucceeded, "")
	})
}

func TestALargeResultThatTheBrokerLostIsNotClaimedWithoutEvidence(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			result, report, err := drain(ctx, r)
			for range 100 {
				report.Find(taskcatalog.Finding{Check: "files", Subject: "/data", Detail: strings.Repeat("x", 500)})
			}
			return result, report, err
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeSucceeded, "")
		l.until("it is reported", func() bool { w, err := p.ledger.Unreported(); return err == nil && len(w) == 0 })
		l.broker.Forget(q)
		again := l.broker.Wait(q, 5*time.Minute)
		wantResult(t, again, taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
		if runs.Load() != 1 || again.Evidence == "" || !strings.Contains(again.Message, "succeeded") {
			t.Fatalf("%d runs; %s", runs.Load(), again.Message)
		}
	})
}

func TestADeliveryOnceMoreGetsTheRecordedResult(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			return drain(ctx, r)
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		first := l.broker.Wait(q, time.Minute)
		// The broker loses its memory, and time passes beyond the task's validity.
		time.Sleep(70 * time.Minute)
		l.broker.Forget(q)
		again := l.broker.Wait(q, 5*time.Minute)
		if runs.Load() != 1 || again.Outcome != first.Outcome || again.Evidence != first.Evidence || again.Attempt != 2 {
			t.Fatalf("%d runs; %s %s attempt %d", runs.Load(), again.Outcome, again.Message, again.Attempt)
		}
	})
}

func TestAResultTooLargeIsShortenedAndCounted(t *testing.T) {
	inBubble(t, func(l *lab) {
		text := strings.Repeat("x", taskcatalog.MaxText)
		l.handle("node.drain@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			var report taskcatalog.Report
			for range taskcatalog.MaxFindings {
				report.Find(taskcatalog.Finding{Check: "files", Subject: text, Detail: text})
			}
			for range taskcatalog.MaxDispositions {
				report.Dispose(taskcatalog.Disposition{Check: "files", Path: text, Action: taskcatalog.ActionFailed, Reason: text})
			}
			report.Judge()
			return &taskcatalog.DrainResult{}, report, nil
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeSucceeded, "")
		ev := q.Evidence
		if ev.Verdict != taskcatalog.VerdictNotClean || len(ev.Findings)+ev.FindingsOmitted != taskcatalog.MaxFindings || len(ev.Dispositions)+ev.DispositionsOmitted != taskcatalog.MaxDispositions || len(ev.Findings) == 0 {
			t.Fatalf("%d+%d findings, %d+%d dispositions, %s", len(ev.Findings), ev.FindingsOmitted, len(ev.Dispositions), ev.DispositionsOmitted, ev.Verdict)
		}
	})
}

func TestAResultThatCannotBeShortenedFails(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return &taskcatalog.DrainResult{ProcessesLeft: []taskcatalog.StuckProcess{{Name: strings.Repeat("x", 2<<20)}}}, taskcatalog.Report{}, nil
		}))
		p := l.start()
		r := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`), time.Minute)
		wantResult(t, r, taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerFailed)
		if !strings.Contains(r.Message, "larger than") {
			t.Fatal(r.Message)
		}
	})
}

func TestWhatComesAfterAResultWaitsForItsAcceptance(t *testing.T) {
	for _, crash := range []bool{false, true} {
		inBubble(t, func(l *lab) {
			var afters atomic.Int64
			l.handle("node.uninstall@1", tasks.Handler{
				Do: func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
					return &taskcatalog.UninstallResult{Removes: []string{"x"}}, taskcatalog.Report{}, nil
				},
				After: func(context.Context, *host.Host) error {
					if afters.Add(1) == 1 && crash {
						return errors.New("systemd does not answer")
					}
					return nil
				},
			})
			p := l.start()
			id := l.nodeID(p)
			lose := true
			l.broker.Lock()
			l.broker.LoseAnswer = func(route string) bool { return route == "result" && lose }
			l.broker.Unlock()
			q := l.broker.Enqueue(id, "node.uninstall", `{}`)
			l.broker.Wait(q, time.Minute)
			time.Sleep(10 * time.Minute)
			if afters.Load() != 0 {
				t.Fatal("the agent went before it knew that the broker has the result")
			}
			l.broker.Lock()
			lose = false
			l.broker.Unlock()
			l.until("it was done", func() bool { return afters.Load() == 1 })
			if crash {
				time.Sleep(time.Minute)
				p.quit()
				l.start()
				l.until("it was done again", func() bool { return afters.Load() == 2 })
			}
			time.Sleep(2 * time.Minute)
			late := l.broker.Enqueue(id, "node.heartbeat_check", `{}`)
			time.Sleep(10 * time.Minute)
			l.broker.Lock()
			attempts, result := late.Attempt, late.Result
			l.broker.Unlock()
			if attempts > 1 || result != nil || afters.Load() > 2 {
				t.Fatalf("an agent that is going takes tasks: %d deliveries, %+v", attempts, result)
			}
		})
	}
}
