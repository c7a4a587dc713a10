package store

import (
	"context"
	"sync"
)

// HintKind is the subject of a hint.
type HintKind string

// The kinds of hints.
const (
	HintTask   HintKind = "task"   // ID is a node with a task to fetch
	HintCancel HintKind = "cancel" // ID is a node with a task to stop
	HintEnded  HintKind = "ended"  // ID is a task that has ended
	HintDeny   HintKind = "deny"   // ID is a certificate's serial
	HintToken  HintKind = "token"  // ID is the name of an operator token that was revoked
	HintTrust  HintKind = "trust"  // ID is a bundle version

	// HintMissed announces that hints of other replicas, of any kind, may have been missed: for a
	// while no connection listened. ID is empty.
	HintMissed HintKind = "missed"
)

// Is reports whether the hint concerns a kind.
func (h Hint) Is(kind HintKind) bool { return h.Kind == kind || h.Kind == HintMissed }

// Hint tells waiting callers that there may be something to look at. Hints may be lost and may come
// twice; only the tables count.
type Hint struct {
	Kind HintKind
	ID   string
}

// Hint sends a hint to every replica. Call it after the commit. The store's own methods send their
// hints themselves.
func (db *DB) Hint(h Hint) { db.publish([]Hint{h}) }

// Hints subscribes until ctx ends; then the channel closes. A reader that falls behind loses hints
// and never delays the senders.
func (db *DB) Hints(ctx context.Context) <-chan Hint { return db.hints.subscribe(ctx) }

func (db *DB) publish(hints []Hint) {
	if len(hints) == 0 {
		return
	}
	db.hints.give(hints)
	db.engine.tell(hints)
}

// hub distributes hints to the subscribers in this process.
type hub struct {
	mu     sync.Mutex
	subs   map[chan Hint]struct{}
	closed bool
}

const hintBuffer = 4096

func newHub() *hub { return &hub{subs: map[chan Hint]struct{}{}} }

func (h *hub) subscribe(ctx context.Context) <-chan Hint {
	c := make(chan Hint, hintBuffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(c)
		return c
	}
	h.subs[c] = struct{}{}
	context.AfterFunc(ctx, func() { h.drop(c) })
	return c
}

func (h *hub) drop(c chan Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[c]; ok {
		delete(h.subs, c)
		close(c)
	}
}

func (h *hub) give(hints []Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		for _, hint := range hints {
			select {
			case c <- hint:
			default:
			}
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.subs {
		delete(h.subs, c)
		close(c)
	}
}
