package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Engines are the engines that Each runs on.
var Engines = []string{"sqlite", "postgres"}

// Each runs f as a subtest on a fresh store of each engine.
func Each(t *testing.T, f func(t *testing.T, db *store.DB, clock *Clock)) {
	t.Helper()
	for _, engine := range Engines {
		t.Run(engine, func(t *testing.T) {
			clock := NewClock()
			f(t, Open(t, engine, clock.Now), clock)
		})
	}
}

// Open opens a fresh store of an engine. A nil clock is the database's own.
func Open(t testing.TB, engine string, now func() time.Time) *store.DB {
	t.Helper()
	return Reopen(t, URL(t, engine), now)
}

// URL returns the URL of a fresh store of an engine, with the current schema.
func URL(t testing.TB, engine string) string {
	t.Helper()
	if engine == "postgres" {
		return createDatabase(t, migrated)
	}
	return "sqlite:" + sqliteFile(t)
}

// Reopen opens the store at a URL, again or beside an open store.
func Reopen(t testing.TB, url string, now func() time.Time) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{URL: url, Now: now, Judge: LacksNothing})
	if err != nil {
		t.Fatalf("cannot open store: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// LacksNothing judges that every certificate suffices: the files of these tests are none.
func LacksNothing([]byte, broker.TurnoverPolicy) []string { return nil }

// OweTurnover sets or clears a node's owed mark, and leaves its status unchanged. Outside of tests
// only a turnover does so.
func OweTurnover(t testing.TB, db *store.DB, nodeID string, owed bool) {
	t.Helper()
	n, err := db.Node(t.Context(), nodeID)
	if err == nil {
		_, err = db.Transition(t.Context(), broker.Actor{Name: "test"}, nodeID, store.Change{
			To: n.Status, By: broker.OwnerTurnover, Reason: "test", OweTurnover: owed, ClearTurnover: !owed,
		})
	}
	if err != nil {
		t.Fatalf("cannot mark node %s: %v", nodeID, err)
	}
}

// Report is a report of a node on itself, which travels with a renewal of the node's certificate.
func Report(t testing.TB, db *store.DB, nodeID string, r store.NodeReport) {
	t.Helper()
	certs, err := db.Certificates(t.Context(), nodeID)
	if err != nil || len(certs) == 0 {
		t.Fatalf("node %s has no certificate to renew: %v", nodeID, err)
	}
	old := certs[len(certs)-1]
	_, err = db.RecordRenewal(t.Context(), store.Renewal{
		NodeID: nodeID, Epoch: old.Epoch, OldSerial: old.Serial, PublicKeyDigest: old.PublicKeyDigest, Report: r,
		Cert: store.IssuedCert{
			Serial: fmt.Sprintf("%s-%d", old.Serial, len(certs)), PEM: "renewed", PublicKey: []byte(nodeID), NotBefore: db.Now(),
			NotAfter: db.Now().Add(time.Hour),
		},
	})
	if err != nil {
		t.Fatalf("cannot record the report of node %s: %v", nodeID, err)
	}
}

// Clock is a clock that stands until a test moves it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at noon of a day in 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
