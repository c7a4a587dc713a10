package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
)

const (
	relayLate = 5 * time.Minute    // NATS lacks an event for so long: somebody must look
	lostShown = 7 * 24 * time.Hour // how long lost events are told
)

// eventsNotSent adds alerts about events that NATS, or endpoints of projects, lack.
func (a *API) eventsNotSent(ctx context.Context, out *api.Status) error {
	if err := a.eventsNotRelayed(ctx, out); err != nil {
		return err
	}
	return a.webhooksDisabled(ctx, out)
}

// eventsNotRelayed adds alerts if NATS lacks events, or will never have some.
func (a *API) eventsNotRelayed(ctx context.Context, out *api.Status) error {
	if a.c.EventRelay == "" {
		return nil
	}
	l, err := a.c.DB.RelayLag(ctx, a.c.EventRelay)
	if err != nil {
		return err
	}
	now := a.c.DB.Now()
	if l.Age(now) >= relayLate {
		many := fmt.Sprint(l.Waiting)
		if l.Waiting == store.MaxWaiting {
			many = "more than " + many
		}
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "events_not_relayed", Since: l.Oldest,
			Message: fmt.Sprintf("NATS lacks %s events: %s; no event that it lacks is deleted until %d times as many are kept, or for %d times as long, as events: in the config says", many,
				cmp.Or(l.Trouble, "the leading broker publishes more slowly than events happen"), outbox.RelayGrace, outbox.RelayGrace),
		})
	}
	if l.Lost > 0 && now.Sub(l.LostAt) < lostShown {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "events_lost", Since: l.LostAt,
			Message: fmt.Sprintf("up to %d events were deleted before NATS had them; whoever reads the stream must read the current state again", l.Lost),
		})
	}
	return nil
}
