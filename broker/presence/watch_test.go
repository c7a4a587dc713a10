package presence

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// fleet is the nodes of one site, with contacts as the test decides.
type fleet struct {
	t     *testing.T
	db    *store.DB
	clock *storetest.Clock
	watch *Watch
	ids   []string
}

func newFleet(t *testing.T, db *store.DB, clock *storetest.Clock, n int) *fleet {
	f := &fleet{t: t, db: db, clock: clock, watch: &Watch{DB: db, Now: clock.Now, Log: zap.NewNop()}}
	for i := range n {
		id := fmt.Sprintf("n-%d", i)
		hash := "hash-" + id
		_, err := db.CreateNode(t.Context(), broker.System, store.NewNode{ID: id, Hostname: id, Site: "dc1", TokenHash: hash, TokenExpires: clock.Now().Add(time.Hour)})
		f.ok(err)
		_, err = db.Enroll(t.Context(), store.EnrollInput{TokenHash: hash, PublicKeyDigest: hash, Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "serial-" + id, PublicKey: []byte(id), NotAfter: clock.Now().Add(time.Hour)}, nil
		}})
		f.ok(err)
		_, err = db.Transition(t.Context(), broker.System, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding})
		f.ok(err)
		f.ids = append(f.ids, id)
	}
	return f
}

func (f *fleet) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// pass advances the clock, with a contact of the nodes in there every ten seconds.
func (f *fleet) pass(d time.Duration, there ...string) {
	f.t.Helper()
	for end := f.clock.Now().Add(d); f.clock.Now().Before(end); {
		f.clock.Advance(Every)
		heard := map[string]time.Time{}
		for _, id := range there {
			heard[id] = f.clock.Now()
		}
		f.ok(f.db.TouchNodes(f.t.Context(), heard))
		f.ok(f.watch.Look(f.t.Context()))
	}
}

func (f *fleet) offline() (n int) {
	f.t.Helper()
	nodes, _, err := f.db.ListNodes(f.t.Context(), store.NodeFilter{Statuses: []broker.NodeStatus{broker.Offline}})
	f.ok(err)
	return len(nodes)
}

func (f *fleet) alerts(code string) int {
	f.t.Helper()
	rows, err := f.db.ListAudit(f.t.Context(), store.AuditFilter{Code: code, Action: "nodes.silent"})
	f.ok(err)
	return len(rows)
}

func TestASilentNodeGoesOfflineAndComesBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFleet(t, db, clock, 3)
		f.pass(5*time.Minute, f.ids...)
		f.pass(DefaultPolicy.Silence, f.ids[1:]...)
		if got := f.offline(); got != 0 {
			t.Fatalf("%d offline at the threshold", got)
		}
		f.pass(Every, f.ids[1:]...)
		if got := f.offline(); got != 1 {
			t.Fatalf("%d offline past the threshold, want 1", got)
		}
		f.pass(Every, f.ids...)
		if got := f.offline(); got != 0 {
			t.Errorf("%d offline after it was heard again", got)
		}
		rows, err := db.ListAudit(t.Context(), store.AuditFilter{Subject: "node/" + f.ids[0], Action: "node.transition"})
		f.ok(err)
		if n := len(rows); n < 2 {
			t.Errorf("%d transitions in the audit log, want both and the first", n)
		}
	})
}

func TestADarkSiteIsOneAlertAndNoChange(t *testing.T) {
	f := onSQLite(t, 20)
	f.pass(5*time.Minute, f.ids...)
	f.pass(time.Hour, f.ids[15:]...)
	if got := f.offline(); got != 0 {
		t.Errorf("%d offline, want none", got)
	}
	if got := f.alerts("site_silent"); got != 1 {
		t.Errorf("%d alerts, want 1", got)
	}
	f.pass(time.Minute, f.ids...) // the silence has ended
	f.pass(time.Hour, f.ids[15:]...)
	if got := f.alerts("site_silent"); got != 2 {
		t.Errorf("%d alerts after a second time, want 2", got)
	}
}

func TestAFullStopOfPollsIsOneAlertAndNoChange(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := onSQLite(t, n)
			f.pass(5*time.Minute, f.ids...)
			f.pass(time.Hour)
			if got, said := f.offline(), f.alerts("polls_stopped"); got != 0 || said != 1 {
				t.Errorf("%d offline and %d alerts, want none and one", got, said)
			}
			// Polls come again; nodes that stay silent have the whole threshold.
			f.pass(DefaultPolicy.Silence, f.ids[:n-1]...)
			if got := f.offline(); got != 0 {
				t.Errorf("%d offline before the threshold began anew", got)
			}
			f.pass(2*Every, f.ids[:n-1]...)
			if got := f.offline(); got != 1 {
				t.Errorf("%d offline, want the one that stayed away", got)
			}
		})
	}
}

// TestASiteThatFallsSilentIsToldOfOnceAndOnceMoreWhenItIsHeard: as events, for a site of any size,
// and whichever broker leads meanwhile.
func TestASiteThatFallsSilentIsToldOfOnceAndOnceMoreWhenItIsHeard(t *testing.T) {
	for n, site := range map[int]string{1: "dc1", 6: ""} { // with six nodes, polls have stopped altogether
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			clock := storetest.NewClock()
			f := newFleet(t, storetest.Open(t, "sqlite", clock.Now), clock, n)
			f.pass(5*time.Minute, f.ids...)
			if got := f.told(); got != "" {
				t.Fatalf("told before anything was silent: %s", got)
			}
			silent := "site.silent site/" + cmp.Or(site, "*")
			for _, broker := range []string{"the first", "the second"} {
				f.pass(5 * time.Minute)
				if got := f.told(); got != silent {
					t.Errorf("under %s broker told: %q", broker, got)
				}
				if stand, err := f.db.Silences(t.Context()); err != nil || len(stand) != 1 || stand[0].Site != site {
					t.Errorf("under %s broker %+v stand (%v)", broker, stand, err)
				}
				f.watch = &Watch{DB: f.db, Now: f.clock.Now, Log: zap.NewNop()}
			}
			f.pass(5*time.Minute, f.ids...)
			if got, want := f.told(), silent+"; site.heard site/"+cmp.Or(site, "*"); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// told returns the events of silence.
func (f *fleet) told() string {
	f.t.Helper()
	_, err := f.db.PlaceEvents(f.t.Context(), 1000)
	f.ok(err)
	events, _, err := f.db.Outbox(f.t.Context(), store.OutboxFilter{Types: []string{store.SilentEvent, store.HeardEvent}})
	f.ok(err)
	var all []string
	for _, e := range events {
		all = append(all, e.Type+" "+e.Subject)
	}
	return strings.Join(all, "; ")
}

func TestSilenceBeginsAnewAfterAStartAndALostDatabase(t *testing.T) {
	f := onSQLite(t, 2)
	f.pass(5*time.Minute, f.ids...)
	f.pass(2*time.Minute, f.ids[1:]...)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.watch.Look(gone); err == nil {
		t.Fatal("the database answered")
	}
	f.pass(2*time.Minute, f.ids[1:]...)
	if got := f.offline(); got != 0 {
		t.Errorf("%d offline: silence was counted while the database was away", got)
	}
	f.watch = &Watch{DB: f.db, Now: f.clock.Now, Log: zap.NewNop()}
	f.pass(DefaultPolicy.Silence, f.ids[1:]...)
	if got := f.offline(); got != 0 {
		t.Errorf("%d offline: silence was counted from before the start", got)
	}
	f.pass(2*Every, f.ids[1:]...)
	if got := f.offline(); got != 1 {
		t.Errorf("%d offline, want 1", got)
	}
}

func TestSilenceChangesNoOtherStatus(t *testing.T) {
	f := onSQLite(t, 1)
	_, err := f.db.Transition(t.Context(), broker.System, f.ids[0], store.Change{To: broker.Quarantined, By: broker.OwnerOperator})
	f.ok(err)
	f.pass(time.Hour)
	f.pass(time.Minute, f.ids...)
	n, err := f.db.Node(t.Context(), f.ids[0])
	f.ok(err)
	if n.Status != broker.Quarantined {
		t.Errorf("the node is %s", n.Status)
	}
}

func onSQLite(t *testing.T, n int) *fleet {
	t.Helper()
	clock := storetest.NewClock()
	return newFleet(t, storetest.Open(t, "sqlite", clock.Now), clock, n)
}
