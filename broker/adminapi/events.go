package adminapi

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// keepAlive is how often a stream without events sends a sign of life.
	keepAlive = 15 * time.Second
	// takeLimit is how long a reader may take to accept a page. A slower reader is cut off and can
	// resume where it was.
	takeLimit = 10 * time.Second
)

type eventsInput struct {
	After  string   `query:"after" maxLength:"20" doc:"id of an event: continue after this event; 0: start at the oldest stored event; empty: only new events"`
	Last   string   `header:"Last-Event-ID" maxLength:"20" doc:"like after; takes precedence over after"`
	Type   []string `query:"type,explode" maxItems:"16" doc:"only events of these types"`
	About  string   `query:"subject" maxLength:"320" doc:"only events with this subject, such as node/ID"`
	Follow bool     `query:"follow" default:"true" doc:"false: end after the newest event instead of waiting for more"`
}

// followEvents writes server-sent events.
func (a *API) followEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	who := callerOf(ctx)
	f := store.OutboxFilter{Types: in.Type, Subject: in.About, Sites: who.sites()}
	var err error
	if f.After, err = a.eventsAfter(ctx, in); err != nil {
		return nil, err
	}
	leave, err := a.c.Events.Join(who.Name)
	if err != nil {
		return nil, err
	}
	return a.streamFrom(ctx, f, &platformForm{lastSent: -1}, leave, in.Follow)
}

// streamFrom answers with a stream. The first page is read before the status is sent, so that a
// request that cannot be served is refused.
func (a *API) streamFrom(
	ctx context.Context, f store.OutboxFilter, form eventForm, leave func(), follow bool,
) (*huma.StreamResponse, error) {
	page, after, err := a.c.Events.Next(ctx, f, 0)
	if err != nil {
		leave()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer leave()
		s := begins(hc)
		s.form = form
		if err := a.stream(ctx, s, f, page, after, follow); err != nil {
			a.abortStream(err)
		}
	}}, nil
}

// eventsAfter finds where a stream begins. Code: event_unknown.
func (a *API) eventsAfter(ctx context.Context, in *eventsInput) (int64, error) {
	from := in.After
	if in.Last != "" {
		from = in.Last
	}
	switch from {
	case "":
		return a.c.Events.Newest(ctx)
	case "0":
		return a.c.Events.Oldest(ctx)
	}
	after, err := strconv.ParseInt(from, 10, 64)
	if err != nil || after < 0 {
		return 0, broker.Errorf(broker.Invalid, "event_unknown", "cannot continue after event %q: event ids are numbers",
			taskcatalog.Clean(from, 20))
	}
	return after, nil
}
