package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Bounds on the readers at one broker.
const (
	MaxReaders = 256
	MaxEach    = 8 // of one token
)

const (
	pageSize  = 100
	lookAgain = 5 * time.Second // although there was no hint of more
)

// Feed hands events to the readers at this broker.
type Feed struct {
	db *store.DB

	mu      sync.Mutex
	news    chan struct{} // closed when there may be more
	readers int
	of      map[string]int // by token
}

// NewFeed returns a feed. The caller must start Run, which wakes readers.
func NewFeed(db *store.DB) *Feed {
	return &Feed{db: db, news: make(chan struct{}), of: map[string]int{}}
}

// Run wakes the readers until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	for h := range f.db.Hints(ctx) {
		if h.Is(store.HintEvents) {
			f.mu.Lock()
			close(f.news)
			f.news = make(chan struct{})
			f.mu.Unlock()
		}
	}
	return ctx.Err()
}

// Join admits a reader until leave is called. Code: too_many_readers.
func (f *Feed) Join(token string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers >= MaxReaders || f.of[token] >= MaxEach {
		return nil, broker.Errorf(broker.TooMany, "too_many_readers",
			"cannot follow events: token %s has %d of at most %d streams, and this broker has %d of %d (end a stream)", token, f.of[token],
			MaxEach, f.readers, MaxReaders)
	}
	f.readers++
	f.of[token]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.readers--
		if f.of[token]--; f.of[token] == 0 {
			delete(f.of, token)
		}
	}, nil
}

// Newest returns the position of the last event.
func (f *Feed) Newest(ctx context.Context) (int64, error) {
	newest, _, err := f.db.OutboxEnds(ctx)
	return newest, err
}

// Oldest returns the position after which all events are kept.
func (f *Feed) Oldest(ctx context.Context) (int64, error) {
	_, forgotten, err := f.db.OutboxEnds(ctx)
	return forgotten, err
}

// Next returns the next page and the position after it. Next waits up to hold for an event, and
// then returns an empty page. Codes: events_forgotten, event_unknown.
func (f *Feed) Next(ctx context.Context, of store.OutboxFilter, hold time.Duration) (page []store.OutboxEvent, after int64, err error) {
	of.Limit = pageSize
	end := time.NewTimer(hold)
	defer end.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		f.mu.Lock()
		news := f.news // before the query, so that events during the query are noticed
		f.mu.Unlock()
		page, after, err = f.db.Outbox(ctx, of)
		if err != nil || len(page) > 0 || hold <= 0 {
			return page, after, err
		}
		of.After = after
		select {
		case <-news:
		case <-look.C:
		case <-end.C:
			return nil, after, nil
		case <-ctx.Done():
			return nil, after, ctx.Err()
		}
	}
}
