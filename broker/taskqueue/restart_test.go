package taskqueue_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// die replaces the broker's process: all unsaved knowledge is gone. (A separate test of the store
// shows that acknowledged writes survive kill -9.)
func (w *world) die(url string) {
	w.t.Helper()
	w.ok(w.db.Close())
	w.db = storetest.Reopen(w.t, url, w.clock.Now)
	w.queue = taskqueue.New(taskqueue.Config{DB: w.db, Signer: w, Rand: rand.Reader})
}

// The node runs the task once, as its ledger ensures, and sends its result until it gets an
// answer. Wherever the broker dies, the task ends once, with its true outcome.
func TestABrokerThatDiesAtAnyBoundaryEndsTheTaskOnce(t *testing.T) {
	for _, engine := range storetest.Engines {
		for _, boundary := range []string{"after enqueue", "after delivery", "mid-run", "before the result", "after the result"} {
			t.Run(engine+"/"+boundary, func(t *testing.T) {
				url, clock := storetest.URL(t, engine), storetest.NewClock()
				w := newWorld(t, storetest.Reopen(t, url, clock.Now), clock)
				n := w.active("one")
				at := func(now string) {
					if now == boundary {
						w.die(url)
					}
				}
				k := w.enqueue(n, "node.drain", "")
				at("after enqueue")
				d := w.fetch(n)
				if len(d) != 1 || d[0].TaskID != k.ID {
					t.Fatalf("delivered %+v", d)
				}
				at("after delivery")
				// The lease expires while the broker is away; the node gets the task again and
				// continues its work.
				clock.Advance(wire.LeaseTime + time.Second)
				_, err := w.queue.Sweep(ctx)
				w.ok(err)
				again := w.fetch(n)
				if len(again) != 1 || again[0].Attempt != 2 || again[0].Envelope != d[0].Envelope {
					t.Fatalf("delivered again: %+v", again)
				}
				at("mid-run")
				_, err = w.queue.Progress(ctx, n.Peer, k.ID, wire.ProgressRequest{Attempt: 2, StepStatus: "running"})
				w.ok(err)
				at("before the result")
				const result = `{"drained":true,"sessions_ended":0,"processes_stopped":0}`
				first := w.succeed(n, again[0], result)
				at("after the result") // its answer is lost, so the node sends it again
				repeat := w.succeed(n, again[0], result)
				if first.Repeat || !repeat.Repeat || repeat.Status != "succeeded" {
					t.Errorf("answered %+v and then %+v", first, repeat)
				}
				clock.Advance(24 * time.Hour)
				_, err = w.queue.Sweep(ctx)
				w.ok(err)
				if got := w.task(k.ID); got.Status != broker.TaskSucceeded || len(w.fetch(n)) != 0 {
					t.Errorf("the task is %s", got.Status)
				}
				rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "task.end", Subject: "task/" + k.ID})
				w.ok(err)
				if len(rows) != 1 {
					t.Errorf("it ended %d times", len(rows))
				}
			})
		}
	}
}
