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
	contactsTimeout = 30 * time.Second // in which as many as there may be are written
	// rereadEvery is how often the records of the nodes that are heard are read again, all
	// together: before one is too old to go by, so that no request waits for that.
	rereadEvery = 25 * time.Second
)

// keepContacts writes down who was heard, until ctx ends and once more then, and reads
// the records of those again. Neither waits for the other.
func (a *API) keepContacts(ctx context.Context) {
	var rereading sync.WaitGroup
	rereading.Go(func() { every(ctx, rereadEvery, rereadEvery, a.reread) })
	defer rereading.Wait()
	every(ctx, contactsEvery, contactsTimeout, a.flushContacts)
	last, done := context.WithTimeout(context.WithoutCancel(ctx), contactsEvery)
	defer done()
	a.flushContacts(last)
}

// every does something now and then until ctx ends, and gives it up when it takes too long.
func every(ctx context.Context, period, timeout time.Duration, do func(context.Context)) {
	periodic.Work{Every: period, Turn: func(ctx context.Context) error {
		once, done := context.WithTimeout(ctx, timeout)
		defer done()
		do(once) // logs its own failures
		return nil
	}}.Run(ctx)
}

// flushContacts writes a batch. One that cannot be written is kept, unless a
// node was heard again since.
func (a *API) flushContacts(ctx context.Context) {
	a.contacts.mu.Lock()
	batch := a.contacts.heard
	a.contacts.heard = map[string]time.Time{}
	a.contacts.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	// Whoever reads when a node was heard compares it with the store's clock.
	ahead := a.c.DB.Now().Round(0).Sub(a.c.Now().Round(0))
	byStore := make(map[string]time.Time, len(batch))
	for id, at := range batch {
		byStore[id] = at.Add(ahead)
	}
	err := a.c.DB.TouchNodes(ctx, byStore)
	if err == nil {
		return
	}
	a.c.Log.Warn("cannot write when nodes were heard", zap.Error(err))
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	maps.Copy(batch, a.contacts.heard)
	a.contacts.heard = batch
}

// reread reads the records of the nodes that wait, or were heard since they were read. What
// is as it was is good for another while; what is not is looked at when the node comes.
func (a *API) reread(ctx context.Context) {
	at := a.c.Now() // before the reading: what changes during it may be missed
	records, err := a.c.DB.Records(ctx, a.contacts.present())
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			a.c.Log.Warn("cannot read the records of the nodes that are heard", zap.Error(err))
		}
		return
	}
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	for id, r := range records {
		n := a.contacts.nodes[id]
		// One that came meanwhile may have changed what was read.
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
