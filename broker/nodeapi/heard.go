package nodeapi

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
)

const (
	contactsEvery   = 5 * time.Second  // how often contacts are written
	contactsTimeout = 30 * time.Second // limit for writing the largest batch
	// rereadEvery is how often the records of the heard nodes are read again, all together. The
	// reading happens before a record expires, so that no request waits for it.
	rereadEvery = 25 * time.Second
)

// keepContacts writes the times of contact until ctx ends, and once more then, and reads the nodes'
// records again. Neither loop waits for the other.
func (a *API) keepContacts(ctx context.Context) {
	var rereading sync.WaitGroup
	rereading.Go(func() { periodically(ctx, rereadEvery, rereadEvery, a.reread) })
	defer rereading.Wait()
	periodically(ctx, contactsEvery, contactsTimeout, a.flushContacts)
	last, done := context.WithTimeout(context.WithoutCancel(ctx), contactsEvery)
	defer done()
	a.flushContacts(last)
}

// periodically calls do periodically until ctx ends, and cancels a call that takes too long.
func periodically(ctx context.Context, period, timeout time.Duration, do func(context.Context)) {
	periodic.Work{Every: period, Turn: func(ctx context.Context) error {
		once, done := context.WithTimeout(ctx, timeout)
		defer done()
		do(once) // logs its own failures
		return nil
	}}.Run(ctx)
}

// flushContacts writes a batch. A batch that cannot be written is kept, except for nodes that were
// heard again since.
func (a *API) flushContacts(ctx context.Context) {
	a.contacts.mu.Lock()
	batch := a.contacts.heard
	a.contacts.heard = map[string]time.Time{}
	a.contacts.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	// Readers compare the time of contact with the store's clock.
	ahead := a.c.DB.Now().Round(0).Sub(a.c.Now().Round(0))
	byStore := make(map[string]time.Time, len(batch))
	for id, at := range batch {
		byStore[id] = at.Add(ahead)
	}
	err := a.c.DB.TouchNodes(ctx, byStore)
	if err == nil {
		return
	}
	a.c.Log.Warn("cannot record the last contacts of nodes", zap.Error(err))
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	maps.Copy(batch, a.contacts.heard)
	a.contacts.heard = batch
}

// reread reads the records of the nodes that wait or were heard since their record was read. An
// unchanged record is valid for another period; a changed record is looked at when the node comes.
func (a *API) reread(ctx context.Context) {
	at := a.c.Now() // before the reading: changes during the reading may be missed
	records, err := a.c.DB.Records(ctx, a.contacts.present())
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			a.c.Log.Warn("cannot read the records of nodes in contact", zap.Error(err))
		}
		return
	}
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	for id, r := range records {
		n := a.contacts.nodes[id]
		// A node that came meanwhile may have changed the record.
		if n == nil || n.epoch != r.Epoch || r.Status == broker.Deleted || r.Status == broker.Enrolling || n.heardAt.After(at) {
			continue
		}
		n.readAt = at
		n.trust, n.report = max(n.trust, r.TrustVersion), r.ReportDigest
		n.told = n.told && (r.Polled && r.Instance == n.instance || !r.Polled && n.instance == "")
	}
}

// present are the nodes that wait, or were heard since their record was read.
func (s *contacts) present() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, n := range s.nodes {
		if n.polls > 0 || n.heardAt.After(n.readAt) {
			ids = append(ids, id)
		}
	}
	return ids
}
