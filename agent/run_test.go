package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// do returns a handler whose Do is work.
func do(work func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error)) tasks.Handler {
	return tasks.Handler{Do: work}
}

// untilStopped works until the context ends.
func untilStopped(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
	<-ctx.Done()
	return nil, taskcatalog.Report{}, context.Cause(ctx)
}

func wantResult(t *testing.T, r wire.ResultRequest, outcome taskcatalog.Outcome, code taskcatalog.Code) {
	t.Helper()
	if r.Outcome != outcome || r.Code != code {
		t.Fatalf("ended %s %s: %s; want %s %s", r.Outcome, r.Code, r.Message, outcome, code)
	}
}

func TestHowAHandlerEndsIsHowTheTaskEnds(t *testing.T) {
	for _, test := range []struct {
		name    string
		work    func(context.Context, *host.Run) (any, taskcatalog.Report, error)
		outcome taskcatalog.Outcome
		code    taskcatalog.Code
		said    string
	}{
		{"done", drain, taskcatalog.OutcomeSucceeded, "", ""},
		{"an error", func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return nil, taskcatalog.Report{}, errors.New("no such unit \x1b[2J")
		}, taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerFailed, `no such unit \x1b[2J`},
		{"an error with a code", func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return nil, taskcatalog.Report{}, taskcatalog.Errorf(taskcatalog.CodeNodeDraining, "drained")
		}, taskcatalog.OutcomeFailed, taskcatalog.CodeNodeDraining, "drained"},
		{"a panic", func(context.Context, *host.Run) (any, taskcatalog.Report, error) { panic("secret") }, taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerPanicked, "panicked"},
		{"past its deadline", untilStopped, taskcatalog.OutcomeFailed, taskcatalog.CodeDeadlineExceeded, "did not end within 10m0s"},
		{"a result of another type", func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return map[string]string{"shell": "root"}, taskcatalog.Report{}, nil
		}, taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerFailed, "does not fit the catalog"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				l.handle("node.drain@1", do(test.work))
				p := l.start()
				r := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`), time.Hour)
				wantResult(t, r, test.outcome, test.code)
				if !strings.Contains(r.Message, test.said) || strings.Contains(r.Message, "secret") || strings.Contains(r.Message, "\x1b") {
					t.Errorf("message: %q", r.Message)
				}
				l.works(p) // whatever a handler did, the agent goes on
			})
		})
	}
}

// The time limit of an erase follows from the sizes of the disks in its params: 180 GB add an hour
// to the base of 24.
func TestATaskHasTheTimeThatItsParamsTake(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.disk_erase@1", do(untilStopped))
		p := l.start()
		r := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.disk_erase", `{"mode":"secure","disks":[{"serial":"a","model":"m","size_bytes":180000000000}]}`), 48*time.Hour)
		wantResult(t, r, taskcatalog.OutcomeFailed, taskcatalog.CodeDeadlineExceeded)
		if !strings.Contains(r.Message, "did not end within 25h0m0s") {
			t.Errorf("message: %q", r.Message)
		}
	})
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
		t.Skip("there is no sleep program")
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

func TestOneExclusiveTaskAtATimeAndOthersBesideIt(t *testing.T) {
	inBubble(t, func(l *lab) {
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		count := func(lane string, work time.Duration, result any) tasks.Handler {
			return do(func(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
				mu.Lock()
				now[lane]++
				most[lane] = max(most[lane], now[lane])
				most["both"] = max(most["both"], min(now["exclusive"], 1)+min(now["concurrent"], 1))
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				now[lane]--
				mu.Unlock()
				return result, taskcatalog.Report{}, nil
			})
		}
		l.handle("node.drain@1", count("exclusive", 3*time.Minute, &taskcatalog.DrainResult{}))
		l.handle("node.heartbeat_check@1", count("concurrent", 20*time.Second, &taskcatalog.HeartbeatCheckResult{}))
		p := l.start()
		id := l.nodeID(p)
		var all []*agenttest.Task
		for range 3 {
			all = append(all, l.broker.Enqueue(id, "node.drain", `{}`))
		}
		for range 12 {
			all = append(all, l.broker.Enqueue(id, "node.heartbeat_check", `{}`))
		}
		for _, q := range all {
			wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeSucceeded, "")
			if q.Attempt > 2 { // 2: a delivery was on its way when the agent polled anew
				t.Errorf("%s was delivered %d times", q.ID, q.Attempt)
			}
		}
		if most["exclusive"] != 1 || most["concurrent"] != 4 || most["both"] != 2 {
			t.Fatalf("most at once: %v", most)
		}
	})
}

func TestAnExclusiveTaskIsTakenAsSoonAsTheLaneIsFree(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			time.Sleep(20 * time.Second)
			return drain(ctx, r)
		}))
		p := l.start()
		first := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		second := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.broker.Wait(first, time.Minute)
		begun := time.Now()
		l.broker.Wait(second, time.Minute)
		if took := time.Since(begun); took > 22*time.Second {
			t.Fatalf("the second took %s after the first", took)
		}
	})
}

func TestALongTaskKeepsItsLease(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			for i := range 4 {
				r.Progress("step \x1b"+string(rune('a'+i)), i, 4, 150, "half")
				time.Sleep(2 * time.Minute)
			}
			return drain(ctx, r)
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.broker.Wait(q, time.Hour)
		if q.Attempt != 1 || len(q.Progress) < 8*60/15 {
			t.Fatalf("attempt %d, %d progress reports in 8 minutes", q.Attempt, len(q.Progress))
		}
		last := q.Progress[len(q.Progress)-1]
		if last.CurrentStepName != `step \x1bd` || last.CurrentStepIndex != 3 || last.TotalSteps != 4 || last.StepPercent != 100 || last.StepStatus != "running" || last.StepStartedAt.IsZero() {
			t.Fatalf("%+v", last)
		}
	})
}

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

func TestRefusalsAreReportedAndWideningAllowDoesNotReviveThem(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			return drain(ctx, r)
		}))
		l.config.Allow = inbox.AllowProbe
		p := l.start()
		id := l.nodeID(p)
		q := l.broker.Enqueue(id, "node.drain", `{}`)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeRefused, taskcatalog.CodeNotAllowed)
		forged := l.broker.Enqueue(id, "node.heartbeat_check", `{}`)
		l.broker.Lock()
		forged.Envelope = strings.Replace(forged.Envelope, `"sig":"`, `"sig":"AAAA`, 1)
		l.broker.Unlock()
		wantResult(t, l.broker.Wait(forged, time.Minute), taskcatalog.OutcomeRefused, taskcatalog.CodeBadSignature)
		p.quit()
		l.config.Allow = inbox.AllowAll
		p = l.start()
		l.broker.Forget(q)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeRefused, taskcatalog.CodeNotAllowed)
		if runs.Load() != 0 {
			t.Fatalf("ran %d times", runs.Load())
		}
		l.works(p)
	})
}

func TestATaskThatWaitedTooLongForItsLaneDoesNotStart(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.heartbeat_check@1", do(func(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
			if runs.Add(1) <= 4 {
				time.Sleep(25 * time.Second)
			}
			return &taskcatalog.HeartbeatCheckResult{}, taskcatalog.Report{}, nil
		}))
		p := l.start()
		id := l.nodeID(p)
		var late *agenttest.Task
		for i := range 5 {
			if i == 4 {
				l.until("the lane is full", func() bool { return runs.Load() == 4 })
			}
			late = l.broker.Enqueue(id, "node.heartbeat_check", `{}`, func(task *taskcatalog.Task) {
				if i == 4 {
					task.NotAfter = task.IssuedAt.Add(10*time.Second - taskcatalog.ClockSkew)
				}
			})
		}
		wantResult(t, l.broker.Wait(late, time.Hour), taskcatalog.OutcomeRefused, taskcatalog.CodeTaskExpired)
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

func TestAccountsOfAllocationsKeepDestructiveTasksOut(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.storage_cleanup@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			return &taskcatalog.StorageCleanupResult{}, taskcatalog.Report{}, nil
		}))
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			uid, err := r.Host.Accounts.NextUID()
			return &taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{}, errors.Join(err, r.Host.Marks.SetDrained(true),
				r.Host.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: uid}))
		}))
		p := l.start()
		id := l.nodeID(p)
		l.broker.Wait(l.broker.Enqueue(id, "node.drain", `{}`), time.Minute)
		r := l.broker.Wait(l.broker.Enqueue(id, "node.storage_cleanup", `{"scope":"local"}`), time.Minute)
		wantResult(t, r, taskcatalog.OutcomeRefused, taskcatalog.CodeAllocationPresent)
		r = l.broker.Wait(l.broker.Enqueue(id, "node.storage_cleanup", `{"scope":"local","allocation_id":"a-1"}`), time.Minute)
		wantResult(t, r, taskcatalog.OutcomeSucceeded, "")
		if s := p.seen(); !s.Drained || len(s.Allocations) != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

// The ledger drops a task once nothing needs its entry any more.
func TestTheLedgerForgetsWhatIsOver(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		q := l.works(p)
		time.Sleep(26 * time.Hour)
		if _, known, err := p.ledger.Get(q.ID); known || err != nil {
			t.Fatal("it remembers a task for no reason", err)
		}
	})
}

func TestEvidenceNamesTheRun(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			if p, ok := r.Params.(*taskcatalog.DrainParams); !ok || p.GraceSeconds != 7 {
				t.Errorf("params: %+v", r.Params)
			}
			time.Sleep(time.Minute)
			return drain(ctx, r)
		}))
		p := l.start()
		q := l.broker.Enqueue(l.nodeID(p), "node.drain", `{"grace_seconds":7}`)
		l.broker.Wait(q, time.Hour)
		if took := q.Evidence.FinishedAt.Sub(q.Evidence.StartedAt); took != time.Minute || q.Evidence.BootID != "5d2f6f3e-0000-4000-8000-000000000001" {
			t.Fatalf("%+v", q.Evidence)
		}
		var got taskcatalog.DrainResult
		if err := json.Unmarshal(q.Result.Result, &got); err != nil || !got.Drained {
			t.Fatal(err, got)
		}
	})
}

// No message to or from a node puts its token or key into the log, the status or the readable files
// of the state.
func TestTheTokenIsNowhereButInItsFile(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		p.quit()
		token := l.boot.Token.Reveal()
		files, err := os.ReadDir(l.config.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(l.config.StateDir + "/" + f.Name())
			if err != nil || strings.Contains(string(raw), token) {
				t.Errorf("%s holds the token (%v)", f.Name(), err)
			}
		}
		raw, err := os.ReadFile(l.config.StatusFile)
		if err != nil || strings.Contains(string(raw), token) || strings.Contains(string(raw), "PRIVATE") {
			t.Errorf("the status holds a secret (%v)", err)
		}
	})
}

// A destructive task admitted without a tenant does not run once a tenant has arrived.
func TestADestructiveTaskThatWaitedIsRefusedBesideANewTenant(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.storage_cleanup@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			return &taskcatalog.StorageCleanupResult{}, taskcatalog.Report{}, nil
		}))
		p := l.start(func(p *process) {
			p.at = func(boundary, _ string) {
				if boundary == "after accept" {
					if err := p.ledger.Accounts().Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 70000}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		q := l.broker.Enqueue(l.nodeID(p), "node.storage_cleanup", `{"scope":"local"}`)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeRefused, taskcatalog.CodeAllocationPresent)
		if runs.Load() != 0 {
			t.Error("it ran")
		}
	})
}

func TestAClockThatIsSetAnewDoesNotWakeTheWatchdog(t *testing.T) {
	inBubble(t, func(l *lab) {
		var last, longest atomic.Int64
		l.config.Watchdog = time.Minute
		l.config.Notify = func(state string) {
			if now := time.Now().UnixNano(); state == "WATCHDOG=1" {
				if before := last.Swap(now); before != 0 {
					longest.Store(max(longest.Load(), now-before))
				}
			}
		}
		p := l.start()
		l.nodeID(p)
		time.Sleep(time.Minute)
		for _, off := range []time.Duration{365 * 24 * time.Hour, 0, -365 * 24 * time.Hour} {
			l.clock.Store(int64(off))
			time.Sleep(3 * time.Minute)
		}
		if got := time.Duration(longest.Load()); got == 0 || got > 31*time.Second {
			t.Errorf("systemd heard nothing for %s", got)
		}
	})
}
