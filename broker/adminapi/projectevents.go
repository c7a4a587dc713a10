package adminapi

import (
	"context"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
)

type projectEventsInput struct {
	ProjectInput
	After  string `query:"after" maxLength:"64" doc:"id from the stream: continue after it; 0: start at the oldest stored event; empty: only new events"`
	Last   string `header:"Last-Event-ID" maxLength:"64" doc:"like after; takes precedence over after"`
	Follow bool   `query:"follow" default:"true" doc:"false: end after the newest event instead of waiting for more"`
}

// followProjectEvents writes the events of a project's allocations and operations. Neither an id nor a refusal nor
// a moment of an answer tells what happens elsewhere. Codes: project_not_found,
// project_events_unavailable, event_unknown, events_forgotten, too_many_readers.
func (a *API) followProjectEvents(ctx context.Context, in *projectEventsInput) (*huma.StreamResponse, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	key, err := secrets.EnsureKey(ctx, a.c.Secrets, outbox.ProjectIDsKey, "cannot make the ids of projects' events")
	if err != nil {
		a.c.Log.Error("cannot serve the events of projects", zap.Error(err))
		return nil, broker.Errorf(broker.Unavailable, "project_events_unavailable",
			"cannot follow events: the broker cannot read the key of their ids (try again later; the broker's log says why)")
	}
	form := projectForm{outbox.NewProjectIDs(key, p.ID)}
	f := store.OutboxFilter{Types: outbox.ProjectTypes, ProjectID: p.ID}
	if who.Place.OfPlatform() {
		f.Sites = who.sites()
	}
	if f.After, err = a.projectEventsAfter(ctx, in, form.ids); err != nil {
		return nil, err
	}
	leave, err := a.c.Events.JoinProject(who.Name, p.OrganisationID, p.ID)
	if err != nil {
		return nil, err
	}
	out, err := a.streamFrom(ctx, f, form, leave, in.Follow)
	return out, withoutPositions(err)
}

// projectEventsAfter finds where a stream begins. Code: event_unknown.
func (a *API) projectEventsAfter(ctx context.Context, in *projectEventsInput, ids outbox.ProjectIDs) (int64, error) {
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
	after, ok := ids.Position(from)
	if !ok {
		return 0, eventUnknown()
	}
	return after, nil
}

func eventUnknown() error {
	return broker.Errorf(broker.Refused, "event_unknown",
		"cannot continue after this event: the project has no such event (follow from now on, without an id, then read the allocations again)")
}

// withoutPositions replaces refusals whose text has positions, which count the events of all.
func withoutPositions(err error) error {
	switch {
	case err == nil:
		return nil
	case broker.AsError(err).Code == "event_unknown":
		return eventUnknown()
	case broker.AsError(err).Code == "events_forgotten":
		return broker.Errorf(broker.Refused, "events_forgotten",
			"cannot continue after this event: later events are no longer kept (follow from now on, without an id, then read the allocations again)")
	}
	return err
}

// projectForm is the form of events for a project.
type projectForm struct{ ids outbox.ProjectIDs }

// event is the event as the project sees it.
func (f projectForm) event(e store.OutboxEvent) (id string, line []byte, err error) {
	seen, err := outbox.ProjectEvent(f.ids, e)
	if err != nil {
		return "", nil, err
	}
	line, err = json.Marshal(seen)
	return seen.ID, line, err
}

// upTo is sent with each sign of life, and differs each time: otherwise it would tell that something
// happened elsewhere.
func (f projectForm) upTo(position int64) string { return f.ids.Place(position) }
