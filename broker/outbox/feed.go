package outbox

import (
	"context"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Bounds on the readers at one broker. Readers of projects take no place from readers of the
// platform. An organisation with many readers takes no place from one with few.
const (
	MaxReaders          = 256
	MaxProjectReaders   = 256 // of the events of projects
	MaxEach             = 8   // of one token
	MaxEachOrganisation = 32  // of the projects of one organisation
	MaxEachProject      = 16

	// KeptForFew of MaxProjectReaders are for organisations that have fewer than Few readers.
	KeptForFew = 128
	Few        = 2
)

// askAgain is when a refused reader may ask again: a reader who left is noticed after the next sign
// of life.
const askAgain = 15 * time.Second

const (
	pageSize  = 100
	lookAgain = 5 * time.Second // although there was no hint of more
)

// Feed hands events to the readers at this broker.
type Feed struct {
	db *store.DB

	mu          sync.Mutex
	news        chan struct{} // closed when there may be more
	projectNews chan struct{} // closed when there may be more for a project
	readers     map[string]int
}

// NewFeed returns a feed. The caller must start Run, which wakes readers.
func NewFeed(db *store.DB) *Feed {
	return &Feed{db: db, news: make(chan struct{}), projectNews: make(chan struct{}), readers: map[string]int{}}
}

// Run wakes the readers until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	for h := range f.db.Hints(ctx) {
		f.mu.Lock()
		if h.Is(store.HintEvents) {
			close(f.news)
			f.news = make(chan struct{})
		}
		if h.Is(store.HintProjectEvents) {
			close(f.projectNews)
			f.projectNews = make(chan struct{})
		}
		f.mu.Unlock()
	}
	return ctx.Err()
}

// The readers that are counted together.
const (
	platformReaders = "platform"
	projectReaders  = "projects"
)

// Join admits a reader until leave is called. Code: too_many_readers.
func (f *Feed) Join(token string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, own := f.readers[platformReaders], f.readers["token/"+token]
	if all >= MaxReaders || own >= MaxEach {
		return nil, tooMany("token %s has %d of at most %d streams, and this broker has %d of %d (end a stream)", token, own, MaxEach, all,
			MaxReaders)
	}
	return f.admit(platformReaders, "token/"+token), nil
}

// JoinProject admits a reader of a project's events until leave is called. The refusal says nothing
// of other organisations. Code: too_many_readers.
func (f *Feed) JoinProject(token, organisationID, projectID string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	project, organisation := "project/"+projectID, "organisation/"+organisationID
	all, own := f.readers[projectReaders], f.readers["token/"+token]
	switch {
	case own >= MaxEach:
		return nil, tooMany("token %s has all of its %d streams (end a stream)", token, MaxEach)
	case f.readers[project] >= MaxEachProject:
		return nil, tooMany("the project has all of its %d streams (end a stream)", MaxEachProject)
	case f.readers[organisation] >= MaxEachOrganisation:
		return nil, tooMany("the organisation has all of its %d streams (end a stream)", MaxEachOrganisation)
	case all >= MaxProjectReaders, all >= MaxProjectReaders-KeptForFew && f.readers[organisation] >= Few:
		return nil, tooMany("this broker has no room for more streams of the organisation (try again later)")
	}
	return f.admit(projectReaders, "token/"+token, organisation, project), nil
}

func tooMany(format string, args ...any) error {
	no := broker.Errorf(broker.TooMany, "too_many_readers", "cannot follow events: "+format, args...)
	no.RetryAfter = askAgain
	return no
}

// admit counts a reader once under each name, until leave is called.
func (f *Feed) admit(names ...string) (leave func()) {
	for _, name := range names {
		f.readers[name]++
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range names {
			if f.readers[name]--; f.readers[name] == 0 {
				delete(f.readers, name)
			}
		}
	}
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
		if of.ProjectID != "" {
			news = f.projectNews
		}
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
