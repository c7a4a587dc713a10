package qemu

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// AtOnce is the number of guests that run at a time: an emulated guest keeps about one core busy.
func AtOnce() int { return min(2, runtime.GOMAXPROCS(0)) }

// Pool has tests take turns, so that at most AtOnce guests run at a time. A test with a turn boots
// its own guest, or uses a guest of the pool. The pool's guests are alike: a prepared guest and its
// twins.
type Pool struct {
	longest []string
	idle    chan *Guest
	ready   chan struct{} // closed once the guests are prepared, or cannot be
	err     error         // why preparing failed; read only after ready is closed
	guests  []*Guest
	stop    context.CancelFunc

	mu      sync.Mutex
	free    int // turns
	waiting []waiting
}

// waiting is a test without a turn yet.
type waiting struct {
	rank int
	turn chan struct{}
}

// NewPool prepares a guest; meanwhile tests that need no guest of the pool may begin. Prepare
// returns a guest with the snapshots that tests start from; the pool closes a guest returned with
// an error as well. Longest names the tests that go first, so that none of them runs alone at the
// end. The caller must Close the pool.
func NewPool(prepare func(context.Context) (*Guest, error), longest ...string) *Pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{longest: longest, idle: make(chan *Guest, AtOnce()), ready: make(chan struct{}), stop: stop, free: AtOnce()}
	p.take("")
	go func() {
		defer p.release()
		defer close(p.ready)
		p.err = p.fill(ctx, prepare)
	}()
	return p
}

func (p *Pool) fill(ctx context.Context, prepare func(context.Context) (*Guest, error)) error {
	first, err := prepare(ctx)
	if first != nil {
		p.guests = append(p.guests, first)
	}
	if err != nil {
		return err
	}
	for len(p.guests) < AtOnce() {
		twin, err := first.Twin(ctx)
		if err != nil {
			return err
		}
		p.guests = append(p.guests, twin)
	}
	for _, g := range p.guests {
		if err := g.SwitchOff(ctx); err != nil {
			return err
		}
		p.idle <- g
	}
	return nil
}

// OwnTurn waits for a turn to run a guest of the test's own; the turn lasts until the test ends.
// The turn's length is logged, because the test's own time includes the wait.
func (p *Pool) OwnTurn(t testing.TB) {
	t.Helper()
	p.take(t.Name())
	begun := time.Now()
	t.Cleanup(func() {
		t.Logf("its turn took %.1f s", time.Since(begun).Seconds())
		p.release()
	})
}

// Turn waits until the test may run a guest of the pool's.
func (p *Pool) Turn(t testing.TB) {
	t.Helper()
	<-p.ready
	if p.err != nil {
		t.Fatal(p.err)
	}
	p.OwnTurn(t)
}

// Guest gives a test with a turn a guest until the test ends, restored to a snapshot.
func (p *Pool) Guest(t testing.TB, ctx context.Context, moment string) *Guest {
	t.Helper()
	g := <-p.idle
	t.Cleanup(func() {
		if err := g.SwitchOff(context.Background()); err != nil {
			t.Error(err)
		}
		p.idle <- g
	})
	if err := g.LoadVM(ctx, moment, time.Now()); err != nil {
		t.Fatal(err)
	}
	return g
}

// take waits for a turn. Among waiting tests, the test that stands first in longest goes first.
func (p *Pool) take(name string) {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return
	}
	w := waiting{rank: slices.Index(p.longest, name), turn: make(chan struct{})}
	if w.rank < 0 {
		w.rank = len(p.longest)
	}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	<-w.turn
}

func (p *Pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		p.free++
		return
	}
	slices.SortStableFunc(p.waiting, func(a, b waiting) int { return a.rank - b.rank })
	close(p.waiting[0].turn)
	p.waiting = p.waiting[1:]
}

// Close ends the pool's guests. No test may run any more.
func (p *Pool) Close() error {
	p.stop()
	<-p.ready
	var errs []error
	for _, g := range p.guests {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}
