package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// What has happened to a node since the tenant's user was made decides whether its allocation becomes active.
func TestAnAllocationIsActiveOnlyWithAllItsNodes(t *testing.T) {
	is := func(to broker.NodeStatus, by broker.Owner) func(testing.TB, *store.DB, broker.Node) {
		return func(t testing.TB, db *store.DB, n broker.Node) {
			must(db.Transition(ctx, admin, n.ID, store.Change{To: to, By: by, Reason: "test"}))(t)
		}
	}
	drift := func(rule, severity string, since time.Duration) func(testing.TB, *store.DB, broker.Node) {
		return func(t testing.TB, db *store.DB, n broker.Node) {
			if !must(db.RecordDrift(ctx, admin, store.Drift{
				Node: must(db.Node(ctx, n.ID))(t), Seen: store.MAASState{NodeID: n.ID, Status: "Ready"}, Rule: rule, Severity: severity,
				Level: "critical", Text: "test", Details: []byte("{}"), FirstSeen: db.Now().Add(since),
			}))(t) {
				t.Fatal("the drift is not recorded")
			}
		}
	}
	enrols := func(t testing.TB, db *store.DB, n broker.Node) {
		ok(t, db.IssueToken(ctx, admin, n.ID, "again", db.Now().Add(time.Hour), "test"))
		e := enroll(t, db, "again", "another key")
		must(db.FirstContact(ctx, n.ID, 2, e.Cert.Serial))(t)
	}
	for name, c := range map[string]struct {
		happens func(testing.TB, *store.DB, broker.Node)
		code    string
	}{
		"nothing":                 {func(testing.TB, *store.DB, broker.Node) {}, ""},
		"offline":                 {is(broker.Offline, broker.OwnerHeartbeat), "node_offline"},
		"quarantined":             {is(broker.Quarantined, broker.OwnerOperator), "node_taken"},
		"drained":                 {is(broker.Draining, broker.OwnerOperator), "node_taken"},
		"released in MAAS":        {drift("released", "critical", 0), "node_taken"},
		"released in MAAS before": {drift("released", "critical", -time.Hour), ""},
		"switched off":            {drift("powered_off", "high", 0), ""},
		"enrolled again":          {enrols, "node_taken"},
		"the user has ended":      {func(t testing.TB, db *store.DB, n broker.Node) { leaves(t, db, n, "a-1") }, "node_taken"},
		"enrolled again, and a user anew": {func(t testing.TB, db *store.DB, n broker.Node) {
			enrols(t, db, n)
			ends(t, db, must(letsInBy(db, must(db.Node(ctx, n.ID))(t), "a-1", "r-1"))(t), done)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				offered(t, db, "h100")
				n := stock(t, db, "h100", "dc1", 1)[0]
				a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning)
				ends(t, db, must(letsInBy(db, n, a.ID, "r-1"))(t), done)
				clock.Advance(time.Minute)
				c.happens(t, db, n)
				change := toActive
				change.CorrelationID = "r-1"
				_, err := db.TransitionAllocation(ctx, admin, a.ID, change)
				if c.code == "" {
					ok(t, err)
					return
				}
				refused(t, err, c.code)
				if got := usageEvents(t, db); len(got) != 0 {
					t.Errorf("told %q", got)
				}
			})
		})
	}
}
