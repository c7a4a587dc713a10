package reconcile_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// eventually polls until ok, for up to ten seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

// ready lets a running Watch find the site.
func (w *world) ready() {
	w.t.Helper()
	_, err := w.db.SetSiteCredentials(w.t.Context(), ada, w.site.ID, "test", store.Credentials{APIToken: true, APIBaseURL: w.site.APIBaseURL})
	w.ok(err)
}

func (w *world) lookedAt(site string) store.ReconcileLook {
	w.t.Helper()
	looks, err := w.db.ReconcileLooks(w.t.Context(), []string{site})
	w.ok(err)
	if len(looks) == 0 {
		return store.ReconcileLook{}
	}
	return looks[0]
}

// One broker of several looks at the sites, when they are due and when a look is requested, and a
// site that does not answer delays no other.
func TestASiteThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock)
		w.machine(true, broker.Active)
		w.ready()
		far := broker.NewSite("00000000-0000-4000-8000-000000000003")
		far.Name, far.RegionCode, far.APIBaseURL, far.PXEIface, far.NodePXEIface = "dc2", "eu-1", "http://far.invalid:5240/MAAS", "ens19", "eno8303"
		far, err := db.CreateSite(t.Context(), ada, far, broker.NewProfile("00000000-0000-4000-8000-000000000004", far.ID, broker.DefaultProfile))
		w.ok(err)
		key, err := maas.ParseKey(w.region.APIKey())
		w.ok(err)
		w.ok(maas.PutToken(t.Context(), w.regions.Secrets, far, key))
		_, err = db.SetSiteCredentials(t.Context(), ada, far.ID, "test", store.Credentials{APIToken: true, APIBaseURL: far.APIBaseURL})
		w.ok(err)
		_, err = db.RequestLook(t.Context(), ada, "dc2")
		w.ok(err)
		waits := make(chan struct{})
		w.guard = func(req *http.Request) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Host, "far") {
				<-waits
				return nil, errAway
			}
			return nil, nil
		}
		clock.Advance(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- db.Lead(ctx, w.watch.Run) }()
		eventually(t, "the site that answers", func() bool { return !w.lookedAt("dc1").Complete.IsZero() })
		clock.Advance(time.Second)
		asked, err := db.RequestLook(t.Context(), ada, "dc1")
		w.ok(err)
		eventually(t, "the look that was asked for", func() bool { return !w.lookedAt("dc1").LookedAt.Before(asked) })
		if got := w.lookedAt("dc2"); !got.LookedAt.IsZero() {
			t.Errorf("%+v", got)
		}
		close(waits)
		eventually(t, "the other site's trouble", func() bool { return w.lookedAt("dc2").Trouble != "" })
		stop()
		<-ended
	})
}
