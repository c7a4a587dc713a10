package taskqueue

import (
	"strings"
	"sync"
)

// waiters are the sleeping polls, by key.
type waiters struct {
	mu sync.Mutex
	by map[string]map[*waiter]struct{}
}

// waiter is a sleeping poll. wake must not block.
type waiter struct{ wake func() }

// join returns a channel that gets a signal after every wake of key, and the function to leave.
// Join before looking, so that no wake is missed.
func (w *waiters) join(key string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	return c, w.watch(key, func() {
		select {
		case c <- struct{}{}:
		default: // a signal is pending already
		}
	})
}

// watch calls wake at every wake of key, until leave is called.
func (w *waiters) watch(key string, wake func()) (leave func()) {
	one := &waiter{wake}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]map[*waiter]struct{}{}
	}
	if w.by[key] == nil {
		w.by[key] = map[*waiter]struct{}{}
	}
	w.by[key][one] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by[key], one)
		if len(w.by[key]) == 0 {
			delete(w.by, key)
		}
	}
}

func (w *waiters) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.by[key] {
		one.wake()
	}
}

// wakeAll wakes every key with the prefix.
func (w *waiters) wakeAll(prefix string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, all := range w.by {
		if strings.HasPrefix(key, prefix) {
			for one := range all {
				one.wake()
			}
		}
	}
}
