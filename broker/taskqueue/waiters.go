package taskqueue

import "sync"

// waiters are the polls that sleep, by what they wait for.
type waiters struct {
	mu sync.Mutex
	by map[string]map[chan struct{}]struct{}
}

// join returns a channel that gets a word after every wake of key, and how to
// leave. Join before looking, so that nothing falls in between.
func (w *waiters) join(key string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]map[chan struct{}]struct{}{}
	}
	if w.by[key] == nil {
		w.by[key] = map[chan struct{}]struct{}{}
	}
	w.by[key][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by[key], c)
		if len(w.by[key]) == 0 {
			delete(w.by, key)
		}
	}
}

func (w *waiters) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.by[key] {
		select {
		case c <- struct{}{}:
		default: // it has a word already
		}
	}
}
