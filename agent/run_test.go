package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
		}, taskcatalog.OutcomeFailed, taskcatalog.CodeHandlerFailed, "does not match the catalog"},
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
