package taskqueue_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// inBubble runs f with a queue on SQLite whose time jumps when all goroutines wait.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t, "sqlite", nil)
		w := newWorld(t, db, nil)
		defer w.follow()()
		f(t, w)
	})
}

// follow runs the queue until the returned function is called.
func (w *world) follow() (end func()) {
	run, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.queue.Run(run)
	}()
	synctest.Wait()
	return func() {
		stop()
		<-ended
	}
}

type waited struct {
	reply wire.WaitReply
	err   error
	after time.Duration
}

func (w *world) wait(ctx context.Context, n node, hold time.Duration) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		start := time.Now()
		r, err := w.queue.Wait(ctx, n.Peer, lanes, hold)
		c <- waited{r, err, time.Since(start)}
	}()
	synctest.Wait()
	return c
}

func TestAnEnqueueWakesTheWaitingNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n, other := w.active("one"), w.active("two")
		got, idle := w.wait(ctx, n, wire.MaxWait), w.wait(ctx, other, wire.MaxWait)
		time.Sleep(3 * time.Second)
		k := w.enqueue(n, "node.heartbeat_check", "")
		if r := <-got; r.err != nil || len(r.reply.Tasks) != 1 || r.reply.Tasks[0].TaskID != k.ID || r.after != 3*time.Second {
			t.Fatalf("%+v", r)
		}
		if r := <-idle; r.err != nil || len(r.reply.Tasks) != 0 || r.after != wire.MaxWait {
			t.Fatalf("the other node: %+v", r)
		}
	})
}

func TestACancelWakesTheWaitingNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		w.fetch(n)
		got := w.wait(ctx, n, wire.MaxWait)
		time.Sleep(time.Second)
		_, err := w.queue.Cancel(ctx, operator, k.ID, "")
		w.ok(err)
		if r := <-got; len(r.reply.Cancel) != 1 || r.after != time.Second {
			t.Fatalf("%+v", r)
		}
	})
}

// When the exclusive lane becomes free, its waiting task goes out at once.
func TestAResultWakesTheNodeForWhatIsNext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		w.enqueue(n, "node.drain", "")
		next := w.enqueue(n, "node.drain", `{"resume":true}`)
		d := w.fetch(n)[0]
		got := w.wait(ctx, n, wire.MaxWait)
		time.Sleep(time.Second)
		w.succeed(n, d, `{"drained":true,"sessions_ended":0,"processes_stopped":0}`)
		if r := <-got; len(r.reply.Tasks) != 1 || r.reply.Tasks[0].TaskID != next.ID || r.after != time.Second {
			t.Fatalf("%+v", r)
		}
	})
}

func TestAPollEndsWithItsRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		request, gone := context.WithCancel(ctx)
		got := w.wait(request, n, wire.MaxWait)
		time.Sleep(time.Second)
		gone()
		if r := <-got; !errors.Is(r.err, context.Canceled) || r.after != time.Second {
			t.Fatalf("%+v", r)
		}
	})
}

// Another process changes the database without a hint.
func TestAHintThatWasLostCostsTwentySecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := storetest.URL(t, "sqlite")
		w := newWorld(t, storetest.Reopen(t, url, nil), nil)
		other := *w
		other.db = storetest.Reopen(t, url, nil)
		other.queue = taskqueue.New(taskqueue.Config{DB: other.db, Signer: w, Rand: rand.Reader})
		defer w.follow()()
		n := w.active("one")
		got := w.wait(ctx, n, wire.MaxWait)
		time.Sleep(time.Second)
		other.enqueue(n, "node.heartbeat_check", "")
		if r := <-got; len(r.reply.Tasks) != 1 || r.after < time.Second || r.after > 20*time.Second {
			t.Fatalf("%+v", r)
		}
	})
}

// After a time without a listening connection, the queue looks at once.
func TestALookFollowsATimeInWhichNobodyListened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := storetest.URL(t, "sqlite")
		w := newWorld(t, storetest.Reopen(t, url, nil), nil)
		other := *w
		other.db = storetest.Reopen(t, url, nil)
		other.queue = taskqueue.New(taskqueue.Config{DB: other.db, Signer: w, Rand: rand.Reader})
		defer w.follow()()
		n := w.active("one")
		got := w.wait(ctx, n, wire.MaxWait)
		time.Sleep(time.Second)
		other.enqueue(n, "node.heartbeat_check", "")
		w.db.Hint(store.Hint{Kind: store.HintMissed})
		if r := <-got; len(r.reply.Tasks) != 1 || r.after > 2*time.Second {
			t.Fatalf("%+v", r)
		}
	})
}

// If the database does not answer the queue's own query, no hint waits, and tasks without a hint
// reach the node at its next poll.
func TestALookThatHangsKeepsNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := storetest.URL(t, "sqlite")
		w := newWorld(t, storetest.Reopen(t, url, nil), nil)
		w.queue.AskWith(func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		other := *w
		other.db = storetest.Reopen(t, url, nil)
		other.queue = taskqueue.New(taskqueue.Config{DB: other.db, Signer: w, Rand: rand.Reader})
		n, quiet := w.active("one"), w.active("two")
		defer w.follow()()
		got := w.wait(ctx, n, wire.MaxWait)
		<-w.wait(ctx, quiet, 0)
		time.Sleep(22 * time.Second) // the query hangs since second two
		k := w.enqueue(n, "node.heartbeat_check", "")
		unhinted := other.enqueue(quiet, "node.heartbeat_check", "")
		synctest.Wait()
		select {
		case r := <-got:
			if len(r.reply.Tasks) != 1 || r.reply.Tasks[0].TaskID != k.ID || r.after != 22*time.Second {
				t.Errorf("%+v", r)
			}
		default:
			t.Error("the hint has not woken the poll")
		}
		time.Sleep(4 * time.Second)
		if r := <-w.wait(ctx, quiet, 0); len(r.reply.Tasks) != 1 || r.reply.Tasks[0].TaskID != unhinted.ID {
			t.Errorf("what no hint told of: %+v", r)
		}
	})
}

// The nodes that a look finds are not woken all at once, because each poll then claims.
func TestALookWakesOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, storetest.Open(t, "sqlite", nil), nil)
		var nodes []string
		at := make(chan time.Time, 4)
		for i := range cap(at) {
			id := fmt.Sprint("n-", i)
			nodes = append(nodes, id)
			defer w.queue.Watch(id, func() { at <- time.Now() })()
		}
		w.queue.AskWith(func(context.Context) ([]string, error) { return nodes, nil })
		defer w.follow()()
		last := <-at
		for range cap(at) - 1 {
			next := <-at
			if next.Sub(last) != 500*time.Millisecond {
				t.Errorf("one is woken %v after another", next.Sub(last))
			}
			last = next
		}
	})
}

// A node that polls again and again, with nothing open, is answered from memory; a new task still
// reaches the node from its next poll on.
func TestAnIdlePollAsksTheDatabaseNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		<-w.wait(ctx, n, wire.MaxWait)
		const cycles = 10
		before := w.db.Statements()
		begun := time.Now()
		for range cycles {
			<-w.wait(ctx, n, wire.MaxWait)
		}
		// The number of the queue's own looks does not depend on the number of nodes.
		if asked, looks := w.db.Statements()-before, int64(time.Since(begun)/(20*time.Second))+1; asked > looks {
			t.Fatalf("%d idle polls: %d statements, of which %d are not the polls'", cycles, asked, looks)
		}
		k := w.enqueue(n, "node.heartbeat_check", "")
		synctest.Wait()
		if r := <-w.wait(ctx, n, wire.MaxWait); len(r.reply.Tasks) != 1 || r.reply.Tasks[0].TaskID != k.ID || r.after != 0 {
			t.Fatalf("%+v", r)
		}
	})
}

// An earlier enrolment of a node learns nothing from the knowledge about the present enrolment.
func TestWhatIsKnownOfANodeIsOfItsEnrolment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		<-w.wait(ctx, n, wire.MaxWait)
		earlier := n
		earlier.Epoch--
		if r := <-w.wait(ctx, earlier, wire.MaxWait); r.err == nil || r.after != 0 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestWhoeverWaitsForATaskHearsOfItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		ended := make(chan time.Duration, 1)
		go func() {
			start := time.Now()
			got, err := w.queue.AwaitEnd(ctx, k.ID, time.Minute)
			if err != nil || !got.Status.Ended() {
				t.Errorf("%s, %v", got.Status, err)
			}
			ended <- time.Since(start)
		}()
		time.Sleep(2 * time.Second)
		w.succeed(n, w.fetch(n)[0], heartbeat)
		if after := <-ended; after != 2*time.Second {
			t.Fatalf("after %v", after)
		}
		other := w.enqueue(n, "node.heartbeat_check", "")
		start := time.Now()
		if got, err := w.queue.AwaitEnd(ctx, other.ID, 30*time.Second); err != nil || got.Status.Ended() || time.Since(start) != 30*time.Second {
			t.Fatalf("%s after %v, %v", got.Status, time.Since(start), err)
		}
	})
}
