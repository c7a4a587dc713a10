package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

// copyLedger copies a node's ledger into another folder.
func (l *lab) copyLedger(from, to string) {
	l.t.Helper()
	in, err := os.Open(filepath.Join(from, "ledger.db"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(filepath.Join(to, "ledger.db"))
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		l.t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// A version took tasks and then damaged the ledger. After the revert the ledger has no entry of
// these tasks. None of them runs twice when delivered again.
func TestATaskThatALostLedgerKnewDoesNotRunTwice(t *testing.T) {
	for _, boundary := range []string{"after start", "after finish", "after report"} {
		t.Run(boundary, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				p := l.start()
				id := l.nodeID(p)
				l.works(p)
				p.quit()
				before := t.TempDir()
				l.copyLedger(l.config.StateDir, before)

				times := 0
				l.handle("node.drain@1", tasks.Handler{Do: func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
					times++
					return drain(ctx, r)
				}})
				died := make(chan struct{})
				p = l.start(func(q *process) {
					q.at = func(at, _ string) {
						if at == boundary {
							q.kill()
							close(died)
							runtime.Goexit()
						}
					}
				})
				q := l.broker.Enqueue(id, "node.drain", `{}`)
				<-died
				<-p.ended
				if boundary == "after report" {
					l.broker.Wait(q, time.Minute)
					l.broker.Forget(q) // the broker delivers it again
				}
				ran := times
				if err := ledger.RecordLoss(before, time.Now()); err != nil {
					t.Fatal(err)
				}
				l.copyLedger(before, l.config.StateDir)
				l.start()
				wantResult(t, l.broker.Wait(q, 10*time.Minute), taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
				if times != ran {
					t.Errorf("it ran %d times", times)
				}
				time.Sleep(time.Second)
				wantResult(t, l.broker.Wait(l.broker.Enqueue(id, "node.drain", `{}`), time.Minute), taskcatalog.OutcomeSucceeded, "")
			})
		})
	}
}

// A task that waited in its lane at the switch is recorded in the copy as not started.
func TestATaskThatWaitedAtTheSwitchIsNotSaidToHaveDoneNothing(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		id, died := l.nodeID(p), make(chan struct{})
		p.quit()
		l.start(func(p *process) {
			p.at = func(at, _ string) {
				if at == "after accept" {
					p.kill()
					close(died)
					runtime.Goexit()
				}
			}
		})
		q := l.broker.Enqueue(id, "node.drain", `{}`)
		<-died
		time.Sleep(time.Second)
		if err := ledger.RecordLoss(l.config.StateDir, time.Now()); err != nil {
			t.Fatal(err)
		}
		l.broker.Cancel(q) // it is not delivered again
		time.Sleep(2 * time.Hour)
		l.start()
		wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted)
	})
}
