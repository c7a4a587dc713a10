package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// An endpoint gets the events of its project from the registration on, each once, in order and
// signed, and nothing of another project.
func TestAnEndpointGetsTheEventsOfItsProject(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w, e := newWorld(t, db), newEndpoint(t)
		w.project(t, "acme")
		w.project(t, "other")
		h := w.hook(t, "acme", e.URL+"/hooks")
		w.delivering(t, w.sender(t, loopback(t, e)))
		w.happen(t, "other", 2)
		w.happen(t, "acme", 15)
		eventually(t, "the events", func() bool { return len(e.requests()) >= 30 })
		seen := map[string]bool{}
		for i, r := range e.requests() {
			mac := hmac.New(sha256.New, key(t, w.plain[h.ID]))
			mac.Write([]byte(r.id + "." + r.timestamp + "." + string(r.body)))
			if r.signature != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) || r.contentType != "application/cloudevents+json" {
				t.Errorf("request %d: %+v", i, r)
			}
			want := []string{store.ReleasingRequestedEvent, store.ReleaseFailedEvent}[i%2]
			if e := r.event(t); e.Type != want || e.Subject != "allocation/alc-acme" || seen[r.id] {
				t.Errorf("request %d is %+v, want %s", i, e, want)
			}
			seen[r.id] = true
			for _, word := range []string{"dc1", "n-acme", "ada", "hostname"} {
				if strings.Contains(string(r.body), word) {
					t.Errorf("an endpoint reads %q in %s", word, r.body)
				}
			}
		}
		eventually(t, "the record", func() bool { h = w.look(t, h); return h.Code == "" && !h.DeliveredAt.IsZero() })
	})
}

// killed is a store before which a broker is killed: what an endpoint took is not recorded.
type killed struct {
	*store.DB
	kills, looks atomic.Int32
}

func (k *killed) DueWebhooks(ctx context.Context) ([]store.DueWebhook, error) {
	k.looks.Add(1)
	return k.DB.DueWebhooks(ctx)
}

func (k *killed) WebhookDelivered(ctx context.Context, id string, from, to int64) error {
	if k.kills.Add(-1) >= 0 {
		return errors.New("killed")
	}
	return k.DB.WebhookDelivered(ctx, id, from, to)
}

// A broker is killed between the answer and the record of it. The event is sent again, with the same
// id and the same body, but not as fast as the endpoint answers.
func TestAnEventWhoseRecordWasLostIsSentAgainWithItsID(t *testing.T) {
	w, clock := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	w.hook(t, "acme", e.URL)
	k := &killed{DB: w.db}
	k.kills.Store(2)
	w.happen(t, "acme", 1)
	w.delivering(t, w.sender(t, loopback(t, e)), func(d *webhook.Deliverer) { d.DB = k })
	for lost := range 2 {
		eventually(t, "the loss of a record", func() bool { return k.kills.Load() == int32(1-lost) })
		looks := k.looks.Load()
		eventually(t, "more looks at what is due", func() bool { return k.looks.Load() >= looks+5 })
		if n := len(e.requests()); n != lost+1 {
			t.Fatalf("%d requests after %d lost records", n, lost+1)
		}
		clock.Advance(6 * time.Second)
	}
	eventually(t, "the events", func() bool { return len(e.requests()) >= 4 })
	got := e.requests()
	if got[0].id != got[1].id || got[1].id != got[2].id || string(got[0].body) != string(got[2].body) || got[3].id == got[0].id {
		t.Errorf("sent were %+v", got)
	}
}

// stale is a store whose list of due webhooks is as old as the first that it gave.
type stale struct {
	*store.DB
	first atomic.Pointer[[]store.DueWebhook]
}

func (s *stale) DueWebhooks(ctx context.Context) ([]store.DueWebhook, error) {
	due, err := s.DB.DueWebhooks(ctx)
	if len(due) > 0 {
		s.first.CompareAndSwap(nil, &due)
	}
	if old := s.first.Load(); old != nil && err == nil {
		return *old, nil
	}
	return due, err
}

// A list of due webhooks that was read before a turn ended begins no turn at the old position.
func TestAnOldListSendsNothingAgain(t *testing.T) {
	w, clock := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	w.delivering(t, w.sender(t, loopback(t, e)), func(d *webhook.Deliverer) { d.DB = &stale{DB: w.db} })
	for i := range 5 {
		w.happen(t, "acme", 1)
		eventually(t, "the events", func() bool { return len(e.requests()) >= 2*i+2 })
		clock.Advance(time.Second)
	}
	var last string
	for _, r := range e.requests() {
		if got := r.event(t).Type; got == last {
			t.Errorf("%s comes again", got)
		} else {
			last = got
		}
	}
	if got := e.requests(); len(got) != 10 {
		t.Errorf("%d requests for 10 events: %+v", len(got), w.look(t, h))
	}
}

// A try that was under way when a person enabled the webhook does not disable it again.
func TestAnEarlierTryUndoesNoEnable(t *testing.T) {
	w, clock := openWorld(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", "https://hooks.example.com/")
	fails := func(attempts int, disable bool) {
		if err := w.db.WebhookFailed(ctx, store.WebhookFailure{
			ID: h.ID, Position: h.Position, Attempts: attempts, Code: "webhook_refused", Next: clock.Now(), Disable: disable,
		}); err != nil {
			t.Fatal(err)
		}
	}
	fails(0, false)
	fails(1, true)
	if got := w.look(t, h); got.State() != broker.WebhookDisabled || got.Attempts != 2 {
		t.Fatalf("%+v", got)
	}
	must(w.db.EnableWebhook(ctx, broker.Actor{Name: "ada"}, h.ProjectID, h.ID, "repaired"))(t)
	fails(1, true)
	if got := w.look(t, h); got.State() != broker.WebhookActive || got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
}

// A failing endpoint is tried again after longer and longer pauses, and gets everything in order when
// it works again.
func TestAFailingEndpointIsTriedAgainLaterAndLater(t *testing.T) {
	w, clock := openWorld(t)
	e := newEndpoint(t)
	e.answers(status(http.StatusInternalServerError))
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	w.delivering(t, w.sender(t, loopback(t, e)))
	w.happen(t, "acme", 1)
	var last time.Duration
	for try := 1; try <= 12; try++ {
		eventually(t, "the record of a try", func() bool { return w.look(t, h).Attempts == try })
		now := w.look(t, h)
		pause := now.NextTryAt.Sub(clock.Now())
		if now.State() != broker.WebhookFailing || now.Code != "webhook_refused" || !strings.Contains(now.Trouble, "500") || pause < last || pause > 67*time.Minute {
			t.Fatalf("after %d tries and a pause of %s: %s %+v", try, last, pause, now)
		}
		last = pause - pause/5
		clock.Advance(pause - time.Millisecond)
		if early := w.look(t, h); early.Attempts != try {
			t.Fatalf("try %d came too early", early.Attempts)
		}
		clock.Advance(time.Millisecond)
	}
	if last < 40*time.Minute {
		t.Errorf("the last pause was %s", last)
	}
	e.answers(nil)
	clock.Advance(2 * time.Hour)
	eventually(t, "the events", func() bool { return w.look(t, h).State() == broker.WebhookActive })
	eventually(t, "the second event", func() bool { r := e.requests(); return r[len(r)-1].event(t).Type == store.ReleaseFailedEvent })
	if h = w.look(t, h); h.Attempts != 0 || !h.FailingSince.IsZero() || h.Trouble != "" {
		t.Errorf("afterwards: %+v", h)
	}
}

// Tries end after a day. The end is announced once, and a person lets the webhook go on where it
// was.
func TestTriesEndAfterADayAndAPersonGoesOn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w, e := newWorld(t, db), newEndpoint(t)
		e.answers(status(http.StatusBadGateway))
		w.project(t, "acme")
		h := w.hook(t, "acme", e.URL)
		w.delivering(t, w.sender(t, loopback(t, e)))
		w.happen(t, "acme", 1)
		for since := clock.Now(); w.look(t, h).State() != broker.WebhookDisabled; {
			if clock.Now().Sub(since) > 27*time.Hour {
				t.Fatalf("after more than a day: %+v", w.look(t, h))
			}
			before := w.look(t, h)
			tries := before.Attempts
			if before.Code != "" {
				clock.Advance(before.NextTryAt.Sub(clock.Now()))
			}
			eventually(t, "a try", func() bool { now := w.look(t, h); return now.Attempts > tries || now.State() == broker.WebhookDisabled })
		}
		h = w.look(t, h)
		if now := clock.Now(); now.Sub(h.FailingSince) < 24*time.Hour || h.Attempts < 10 || h.Code != "webhook_refused" {
			t.Errorf("it ends with %+v", h)
		}
		var told []store.OutboxEvent
		eventually(t, "the event", func() bool {
			told, _, _ = db.Outbox(ctx, store.OutboxFilter{Types: []string{store.WebhookDisabledEvent}})
			return len(told) > 0
		})
		if len(told) != 1 || told[0].Subject != "webhook/"+h.ID || strings.Contains(string(told[0].Data), e.URL) {
			t.Errorf("told is %+v", told)
		}
		counts := must(db.CountWebhooks(ctx))(t)
		if counts.By[broker.WebhookDisabled] != 1 || counts.By[broker.WebhookActive] != 0 || !counts.Disabled.Equal(h.DisabledAt) {
			t.Errorf("counted are %+v", counts)
		}
		sent := len(e.requests())
		clock.Advance(48 * time.Hour)
		e.answers(nil)
		if due := must(db.DueWebhooks(ctx))(t); len(due) != 0 || len(e.requests()) != sent {
			t.Errorf("a disabled webhook is due: %+v", due)
		}
		must(db.EnableWebhook(ctx, admin, h.ProjectID, h.ID, "repaired"))(t)
		eventually(t, "the events", func() bool { return len(e.requests()) == sent+2 })
		if again := e.requests(); again[sent].id != again[0].id {
			t.Errorf("it goes on with %+v", again[sent])
		}
	})
}

func TestAnEndpointThatIsGoneIsAskedOnce(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	e.answers(status(http.StatusGone))
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	w.delivering(t, w.sender(t, loopback(t, e)))
	w.happen(t, "acme", 1)
	eventually(t, "the end", func() bool { return w.look(t, h).State() == broker.WebhookDisabled })
	if h = w.look(t, h); h.Code != "webhook_gone" || len(e.requests()) != 1 {
		t.Errorf("after %d requests: %+v", len(e.requests()), h)
	}
}

// Endpoints of one tenant that never answer take none of the others' time.
func TestSilentEndpointsHoldNobodyUp(t *testing.T) {
	w, _ := openWorld(t)
	silent, fine := newEndpoint(t), newEndpoint(t)
	let := make(chan struct{})
	defer close(let)
	var now, most atomic.Int32
	silent.answers(func(_ http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-let:
		case <-r.Context().Done():
		}
	})
	w.project(t, "a0")
	for _, name := range []string{"a1", "a2", "a3"} {
		w.projectOf(t, "org-a0", name)
	}
	w.project(t, "fine")
	for _, name := range []string{"a0", "a1", "a2", "a3"} {
		for range store.MaxWebhooks {
			w.hook(t, name, silent.URL)
		}
		w.happen(t, name, 1)
	}
	w.hook(t, "fine", fine.URL)
	c := loopback(t, fine) // both endpoints have the certificate of httptest
	w.delivering(t, w.sender(t, c))
	eventually(t, "the silent endpoints", func() bool { return now.Load() == 4 })
	w.happen(t, "fine", 20)
	eventually(t, "the events of the other tenant", func() bool { return len(fine.requests()) == 40 })
	if most.Load() != 4 {
		t.Errorf("%d requests of one organisation were under way", most.Load())
	}
}

// Events that were deleted before they were sent are told to the project. What was deleted after the
// endpoint had everything is not.
func TestDeletedEventsAreToldOnlyIfTheyWereNotSent(t *testing.T) {
	w, clock := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	forget := func() {
		t.Helper()
		clock.Advance(time.Hour)
		for n := int64(1); n > 0; {
			n = must(w.db.ForgetEvents(ctx, clock.Now(), 0, 1000, ""))(t)
		}
	}
	placed := func() {
		t.Helper()
		eventually(t, "positions", func() bool { g, err := w.db.Gauges(ctx); return err == nil && g.Unplaced == 0 })
	}
	w.project(t, "other") // its events move the newest position
	placed()
	if err := w.db.CatchUpWebhooks(ctx); err != nil {
		t.Fatal(err)
	}
	forget()
	stop := w.delivering(t, w.sender(t, loopback(t, e)))
	w.happen(t, "acme", 1)
	eventually(t, "the events", func() bool { return len(e.requests()) == 2 })
	stop()
	if h = w.look(t, h); !h.MissedAt.IsZero() {
		t.Errorf("nothing was missed: %+v", h)
	}
	w.happen(t, "acme", 1)
	placed()
	forget()
	w.happen(t, "acme", 1)
	w.delivering(t, w.sender(t, loopback(t, e)))
	eventually(t, "the events that are kept", func() bool { return len(e.requests()) == 4 })
	if h = w.look(t, h); h.MissedAt.IsZero() {
		t.Errorf("two events were missed: %+v", h)
	}
}

// Without the signing secret nothing is sent, and the webhook says so. While the store of secrets is
// away, no try counts.
func TestNothingIsSentUnsigned(t *testing.T) {
	w, clock := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	if err := webhook.DropSecret(ctx, w.secrets, h.ProjectID, h.ID); err != nil {
		t.Fatal(err)
	}
	w.delivering(t, w.sender(t, loopback(t, e)))
	w.happen(t, "acme", 1)
	eventually(t, "the trouble", func() bool { return w.look(t, h).Code == "webhook_secret_missing" })
	must(webhook.RotateSecret(ctx, w.secrets, h.ProjectID, h.ID, clock.Now()))(t)
	clock.Advance(time.Hour)
	eventually(t, "the events", func() bool { return len(e.requests()) == 2 })
}

// For a day after a rotation the earlier secrets sign, too, also if a rotation is repeated; then the new one
// alone.
func TestBothSecretsSignForADay(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	begun := time.Unix(1_800_000_000, 0)
	lost := must(webhook.RotateSecret(ctx, w.secrets, h.ProjectID, h.ID, begun))(t) // its answer does not arrive
	next := must(webhook.RotateSecret(ctx, w.secrets, h.ProjectID, h.ID, begun))(t)
	for i, after := range []time.Duration{0, webhook.BothValid - time.Second, webhook.BothValid} {
		s := w.sender(t, loopback(t, e), func(o *webhook.SenderOptions) { o.Now = func() time.Time { return begun.Add(after) } })
		if err := s.Send(ctx, h, "id-1", map[string]string{"a": "b"}); err != nil {
			t.Fatal(err)
		}
		r := e.requests()[i]
		var want []string
		for _, secret := range []string{next, lost, w.plain[h.ID]} {
			mac := hmac.New(sha256.New, key(t, secret))
			mac.Write([]byte(r.id + "." + r.timestamp + "." + string(r.body)))
			want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		if after >= webhook.BothValid {
			want = want[:1]
		}
		if r.signature != strings.Join(want, " ") {
			t.Errorf("%s after the rotation: %q, want %q", after, r.signature, want)
		}
	}
}
