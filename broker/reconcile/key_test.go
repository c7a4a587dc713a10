package reconcile_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// round is a check of a running Watch at the moment at which the site is due.
func (w *world) round() {
	w.t.Helper()
	w.clock.Advance(reconcile.Every)
	w.ok(reconcile.Due(w.t.Context(), w.watch))
}

// keys checks the metrics: how many keys are refused, and how old the last answer is.
func (w *world) keys(refused int, ago time.Duration) {
	w.t.Helper()
	g, err := w.db.Gauges(w.t.Context())
	w.ok(err)
	if got := w.clock.Now().Sub(g.KeysAsked).Round(time.Second); g.KeysRefused != refused || got != ago {
		w.t.Errorf("%d keys are refused, known for %s; want %d, %s", g.KeysRefused, got, refused, ago)
	}
}

// A key that MAAS refuses is known within minutes, at a site with nodes and at a site without;
// after a change of the key, at once.
func TestAKeyThatMAASRefusesIsKnown(t *testing.T) {
	for name, nodes := range map[string]int{"with a node": 1, "without": 0} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				w := newWorld(t, db, clock)
				if g, err := db.Gauges(t.Context()); err != nil || g.KeysRefused != 0 || !g.KeysAsked.IsZero() {
					t.Errorf("of a site without a key %+v, %v", g, err)
				}
				w.ready()
				sites, err := db.Sites(t.Context(), nil)
				w.ok(err)
				w.site = sites[0]
				for range nodes {
					w.machine(true, broker.Active)
				}
				w.keys(0, 0) // the key was tried
				w.round()
				w.keys(0, 0)
				w.region.RevokeKeys("admin")
				w.round()
				w.keys(1, 0)
				// A MAAS that is away says nothing about the key: the last answer counts.
				away := func(*http.Request) (*http.Response, error) { return nil, errAway }
				w.guard = away
				w.round()
				w.keys(1, reconcile.Every)
				w.guard = nil
				key, err := maas.ParseKey(w.region.RenewKeys("admin"))
				w.ok(err)
				w.ok(maas.PutToken(t.Context(), w.regions.Secrets, w.site, key))
				w.ready() // as an operator sets a key, which is tried first
				w.keys(0, 0)
				w.round()
				w.keys(0, 0)
				w.guard = away
				w.round()
				w.keys(0, reconcile.Every)
				if l := w.lookedAt("dc1"); nodes == 0 && !l.LookedAt.IsZero() {
					t.Errorf("a site of no nodes was looked at: %+v", l)
				}
			})
		})
	}
}

// A key that was just set was tried, and MAAS is not asked again; nor is MAAS asked more often than
// the site is looked at.
func TestAKeyIsAskedForOnceInFiveMinutes(t *testing.T) {
	w := onSQLite(t)
	w.ready()
	asked := 0
	w.guard = func(*http.Request) (*http.Response, error) { asked++; return nil, nil }
	glance := func(after time.Duration, want int) {
		t.Helper()
		w.clock.Advance(after)
		w.ok(reconcile.Due(t.Context(), w.watch))
		if asked != want {
			t.Errorf("MAAS was asked %d times, want %d", asked, want)
		}
	}
	glance(reconcile.Every-time.Second, 0)
	glance(time.Second, 0) // the site was checked a second ago
	glance(reconcile.Every, 2)
	glance(reconcile.Every-time.Second, 2)
	glance(time.Second, 4)
}

// A stop of reconciliation at a site is a metric too, until the stop has ended.
func TestASiteWhereReconciliationHasStoppedIsCounted(t *testing.T) {
	w := onSQLite(t)
	w.ready()
	sites, err := w.db.Sites(t.Context(), nil)
	w.ok(err)
	w.site, w.blind = sites[0], true
	w.machine(true, broker.Active)
	held := func() int {
		g, err := w.db.Gauges(t.Context())
		w.ok(err)
		return g.Held[store.HeldReconciliation]
	}
	w.guard = func(*http.Request) (*http.Response, error) { return nil, errAway }
	for range 2 {
		w.round()
	}
	if held() != 1 {
		t.Errorf("%d sites, while MAAS does not answer", held())
	}
	w.guard = nil
	w.round()
	if held() != 0 {
		t.Errorf("%d sites, once it does", held())
	}
}
