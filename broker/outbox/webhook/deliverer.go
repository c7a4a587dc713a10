package webhook

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// Bounds on what one broker sends at the same time.
const (
	mostAtOnce       = 32
	mostOrganisation = 4
	mostProject      = 2
)

const (
	lookEvery    = time.Second // although there was no hint
	catchUpEvery = time.Minute
	inOneTurn    = 20               // events of an endpoint, before others have their turn
	timeOfTurn   = 10 * time.Second // after which others have their turn
	saveIn       = 5 * time.Second
	errorPause   = 5 * time.Second // of a webhook, after an error of the store
)

// The tries of an event.
const (
	firstPause = 5 * time.Second
	mostPause  = time.Hour
	secretWait = time.Minute // until secrets are read again
	giveUpIn   = 24 * time.Hour
	leastTries = 10 // also if the broker itself was away for a day
)

// Deliverer sends the events of projects to their webhooks. The leader runs it.
type Deliverer struct {
	DB      Records
	Feed    *outbox.Feed
	Secrets secrets.Keeper
	Sender  *Sender
	Log     *zap.Logger
	Period  time.Duration // how often it looks without a hint; zero: a second

	mu    sync.Mutex
	busy  map[string]bool      // webhooks
	used  map[string]int       // by organisation and project
	freed chan struct{}        // a turn has ended
	wait  map[string]time.Time // webhooks whose turn ended in an error, and until when they wait
	work  sync.WaitGroup
}

// Records is what a Deliverer needs of the store; a test puts faults before it.
type Records interface {
	Now() time.Time
	Hints(ctx context.Context) <-chan store.Hint
	DueWebhooks(ctx context.Context) ([]store.DueWebhook, error)
	Webhook(ctx context.Context, projectID, id string) (broker.Webhook, error)
	WebhookDelivered(ctx context.Context, id string, from, to int64) error
	WebhookFailed(ctx context.Context, f store.WebhookFailure) error
	SkipWebhook(ctx context.Context, id string, from, to int64) error
	CatchUpWebhooks(ctx context.Context) error
}

// Run delivers until ctx ends, and waits for the requests that are under way.
func (d *Deliverer) Run(ctx context.Context) {
	d.busy, d.used, d.wait, d.freed = map[string]bool{}, map[string]int{}, map[string]time.Time{}, make(chan struct{}, 1)
	defer d.work.Wait()
	hints := d.DB.Hints(ctx)
	look, catchUp := time.NewTicker(cmp.Or(d.Period, lookEvery)), time.NewTicker(catchUpEvery)
	defer look.Stop()
	defer catchUp.Stop()
	for {
		if err := d.begin(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("cannot look for webhooks that are due", zap.Error(err))
		}
		if !d.pause(ctx, hints, look.C, catchUp.C) {
			return
		}
	}
}

// pause returns when there may be something to send; false: ctx has ended.
func (d *Deliverer) pause(ctx context.Context, hints <-chan store.Hint, look, catchUp <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case h, open := <-hints:
			if !open {
				hints = nil // the store is closing
			}
			if h.Is(store.HintProjectEvents) {
				return true
			}
		case <-d.freed:
			return true
		case <-look:
			return true
		case <-catchUp:
			if err := d.DB.CatchUpWebhooks(ctx); err != nil && ctx.Err() == nil {
				d.Log.Warn("cannot move webhooks to the newest event", zap.Error(err))
			}
		}
	}
}

// begin starts a turn of each webhook that is due and within the bounds.
func (d *Deliverer) begin(ctx context.Context) error {
	due, err := d.DB.DueWebhooks(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	key, err := secrets.EnsureKey(ctx, d.Secrets, outbox.ProjectIDsKey, "cannot make the ids of projects' events")
	if err != nil {
		return err
	}
	for _, w := range due {
		if !d.take(w) {
			continue
		}
		d.work.Go(func() {
			err := d.turn(ctx, w.Webhook, outbox.NewProjectIDs(key, w.ProjectID))
			if err != nil && ctx.Err() == nil {
				d.Log.Warn("cannot work on a webhook", zap.String("webhook", w.ID), zap.Error(err))
			}
			d.leave(w, err != nil)
		})
	}
	return nil
}

// take claims room for a webhook. One whose turn ended in an error waits: what cannot be recorded would
// be sent as fast as the endpoint answers.
func (d *Deliverer) take(w store.DueWebhook) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[w.ID] || len(d.busy) >= mostAtOnce || d.used[w.OrganisationID] >= mostOrganisation || d.used[w.ProjectID] >= mostProject {
		return false
	}
	if left := d.wait[w.ID].Sub(d.DB.Now()); left > 0 && left <= errorPause { // more: the clock was set back
		return false
	}
	delete(d.wait, w.ID)
	d.busy[w.ID] = true
	d.used[w.OrganisationID]++
	d.used[w.ProjectID]++
	return true
}

func (d *Deliverer) leave(w store.DueWebhook, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, w.ID)
	for _, name := range []string{w.OrganisationID, w.ProjectID} {
		if d.used[name]--; d.used[name] == 0 {
			delete(d.used, name)
		}
	}
	if failed {
		d.wait[w.ID] = d.DB.Now().Add(errorPause)
		return
	}
	select {
	case d.freed <- struct{}{}:
	default:
	}
}

// turn sends some of the events that an endpoint lacks, each when the one before it was taken.
func (d *Deliverer) turn(ctx context.Context, w broker.Webhook, ids outbox.ProjectIDs) error {
	w, err := d.DB.Webhook(ctx, w.ProjectID, w.ID) // the list of due ones may be older than the turn before
	switch {
	case broker.AsError(err).Code == "webhook_not_found":
		return nil // deleted meanwhile
	case err != nil:
		return err
	case !w.DisabledAt.IsZero() || w.NextTryAt.After(d.DB.Now()):
		return nil
	}
	page, upTo, err := d.Feed.Next(ctx, store.OutboxFilter{After: w.Position, ProjectID: w.ProjectID, Types: outbox.ProjectTypes}, 0)
	switch code := broker.AsError(err).Code; {
	case err == nil:
	case code == "events_forgotten":
		to, err := d.Feed.Oldest(ctx)
		if err != nil {
			return err
		}
		return d.DB.SkipWebhook(ctx, w.ID, w.Position, to)
	case code == "event_unknown":
		to, err := d.Feed.Newest(ctx)
		if err != nil {
			return err
		}
		return d.DB.SkipWebhook(ctx, w.ID, w.Position, to)
	default:
		return err
	}
	if len(page) == 0 {
		return d.DB.WebhookDelivered(ctx, w.ID, w.Position, upTo)
	}
	begun := d.DB.Now()
	for _, e := range page[:min(len(page), inOneTurn)] {
		if d.DB.Now().Sub(begun) >= timeOfTurn {
			return nil
		}
		event, err := outbox.ProjectEvent(ids, e)
		if err != nil {
			return err
		}
		if failed := d.Sender.Send(ctx, w, event.ID, event); failed != nil {
			if ctx.Err() != nil {
				return nil // the broker stops: the endpoint has done nothing wrong
			}
			return d.failed(ctx, w, failed)
		}
		if err := d.delivered(ctx, w, e.Position); err != nil {
			return err
		}
		w.Position, w.Attempts, w.FailingSince = e.Position, 0, time.Time{}
	}
	return nil
}

// delivered records what an endpoint took, also if the broker leads no more.
func (d *Deliverer) delivered(ctx context.Context, w broker.Webhook, to int64) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), saveIn)
	defer done()
	return d.DB.WebhookDelivered(ctx, w.ID, w.Position, to)
}

// failed records a try that failed, and decides about the next.
func (d *Deliverer) failed(ctx context.Context, w broker.Webhook, failed error) error {
	now, e := d.DB.Now(), broker.AsError(failed)
	f := store.WebhookFailure{
		ID: w.ID, Position: w.Position, Attempts: w.Attempts, Code: e.Code, Trouble: taskcatalog.Clean(e.Message, 300),
	}
	if secrets.Unreachable(failed) {
		f.Code, f.Trouble, f.Waits = "webhook_secret_unavailable", "the broker cannot read the signing secret (it tries again)", true
		f.Next = now.Add(secretWait)
		return d.DB.WebhookFailed(ctx, f)
	}
	f.Next = now.Add(pauseAfter(w.Attempts + 1))
	f.Disable = e.Code == "webhook_gone" ||
		w.Attempts+1 >= leastTries && !w.FailingSince.IsZero() && now.Sub(w.FailingSince) >= giveUpIn
	if f.Disable {
		d.Log.Warn("a webhook is disabled", zap.String("webhook", w.ID), zap.String("project", w.ProjectID), zap.String("code", e.Code))
	}
	return d.DB.WebhookFailed(ctx, f)
}

// pauseAfter is the time between a failed try and the next, by the number of failed tries.
func pauseAfter(tries int) time.Duration {
	pause := mostPause
	if tries < 11 {
		pause = min(firstPause<<(tries-1), mostPause)
	}
	return pause + rand.N(pause/10) //nolint:gosec // jitter
}
