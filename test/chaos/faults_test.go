//go:build chaos

package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// fault strikes one broker, or a shared part of the world. When do returns, the fault has healed.
type fault struct {
	name   string
	shared bool // it strikes a shared part: only one such fault at a time
	do     func(ctx context.Context, s *scene, b *replica, long time.Duration)
}

var faults = []fault{
	{"broker killed", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.kill()
		after(ctx, long/4)
		b.boot()
	}},
	{"broker stopped", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.end(syscall.SIGTERM)
		after(ctx, long/8)
		b.boot()
	}},
	// The longest pause exceeds a lease.
	{"broker paused", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.signal(syscall.SIGSTOP)
		after(ctx, 2*long)
		b.signal(syscall.SIGCONT)
	}},
	{"broker cut off from the database", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.cut(s.t, s.pg.address, true)
		after(ctx, long)
		b.cut(s.t, s.pg.address, false)
	}},
	{"broker cut off from all but the database", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.cut(s.t, world, true)
		after(ctx, long)
		b.cut(s.t, world, false)
	}},
	{"broker cut off from all", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		b.unplug(s.t, true)
		after(ctx, long)
		b.unplug(s.t, false)
	}},
	{"broker's clock wrong", false, func(ctx context.Context, s *scene, b *replica, long time.Duration) {
		wrong := rand.N(90*time.Second) - 45*time.Second
		b.setClock(wrong)
		after(ctx, long)
		b.setClock(0)
	}},
	{"database killed", true, func(ctx context.Context, s *scene, _ *replica, long time.Duration) {
		s.pg.end()
		after(ctx, long/8)
		s.pg.boot()
	}},
	// Nothing is refused and nothing is answered, as after the failure of a switch.
	{"database cut off from all", true, func(ctx context.Context, s *scene, _ *replica, long time.Duration) {
		s.pg.unplug(s.t, true)
		after(ctx, long/2)
		s.pg.unplug(s.t, false)
	}},
	{"database takes no connections", true, func(ctx context.Context, s *scene, _ *replica, long time.Duration) {
		s.pg.signal(syscall.SIGSTOP) // established connections go on
		after(ctx, long/2)
		s.pg.signal(syscall.SIGCONT)
	}},
	{"all connections of nodes broken", true, func(_ context.Context, s *scene, _ *replica, _ time.Duration) {
		s.fleet.Cut()
	}},
}

func (b *replica) setClock(ahead time.Duration) {
	err := os.WriteFile(b.clock()+".new", strconv.AppendInt(nil, int64(ahead), 10), 0o600)
	if err == nil {
		err = os.Rename(b.clock()+".new", b.clock())
	}
	if err != nil {
		b.t.Error(err)
	}
}

const (
	longest  = 40 * time.Second // of most faults; a pause lasts twice as long
	shortest = 2 * time.Second
)

// least returns a fault that happened least often. Pure chance would miss a kind that strikes
// brokers in about one run in a hundred, because often no broker is free.
func least(happened map[string]int, shared bool) fault {
	var least fault
	for _, n := range rand.Perm(len(faults)) {
		if f := faults[n]; f.shared == shared && (least.do == nil || happened[f.name] < happened[least.name]) {
			least = f
		}
	}
	return least
}

// trouble injects faults until ctx ends, and returns the count of each after all have healed. One
// broker is free of faults at any time.
func (s *scene) trouble(ctx context.Context) map[string]int {
	var work sync.WaitGroup
	free := make(chan *replica, replicas)
	for _, b := range s.brokers {
		free <- b
	}
	spare := <-free // a returning broker takes its place
	var shared sync.Mutex
	happened := map[string]int{}
	for after(ctx, time.Second+rand.N(6*time.Second)) {
		f := least(happened, faults[rand.N(len(faults))].shared)
		long := shortest + rand.N(longest-shortest)
		if f.shared {
			happened[f.name]++
			work.Go(func() {
				shared.Lock()
				defer shared.Unlock()
				s.t.Logf("%s: %s", stamp(), f.name)
				f.do(ctx, s, nil, long)
			})
			continue
		}
		select {
		case b := <-free:
			happened[f.name]++
			work.Go(func() {
				s.t.Logf("%s: %s: %s, %v", stamp(), b.name, f.name, long.Round(time.Second))
				f.do(ctx, s, b, long)
				free <- b
			})
		default:
		}
		select { // another is left alone from now on
		case b := <-free:
			free <- spare
			spare = b
		default:
		}
	}
	work.Wait()
	return happened
}

func stamp() string { return time.Now().UTC().Format("15:04:05") }
