package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

const advisoryWaits = `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
	WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`

// Whoever waits for a freeze holds no row of a node or a run. A placement has passed the freezes and waits for such
// rows: if the order differed, the two and the freeze would wait for each other.
func TestWhoWaitsForAFreezeHoldsNoRow(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	offered(t, db, "h100")
	nodes := stock(t, db, "h100", "dc1", 4)
	enqueueClass(t, db, nodes[1], taskcatalog.ClassDestructive, taskcatalog.LaneExclusive)
	ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
		ID: "r-1", Kind: "k", Site: "dc1", Status: chain.Pending, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), DueAt: db.Now(),
	}}}, nil))
	raw := storetest.Raw(t, url)
	for name, act := range map[string]func(context.Context) error{
		"a user is let in": func(context.Context) error { return letsInError(db, nodes[0], "by-hand") },
		"a node fetches tasks": func(ctx context.Context) error {
			_, _, err := db.ClaimTasks(ctx, nodes[1].ID, nodes[1].Epoch, lanes, 10)
			return err
		},
		"a drift quarantines a node": func(ctx context.Context) error {
			_, err := db.RecordDrift(ctx, admin, store.Drift{Node: nodes[2], Rule: "gone", Severity: "critical", Quarantine: true})
			return err
		},
		"nodes are placed": func(context.Context) error { _, err := asks(db, "a-1", "h100", 1); return err },
		"a run is claimed": func(ctx context.Context) error {
			_, err := db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			freeze := must(raw.BeginTx(ctx, nil))(t)
			must(freeze.Exec(`SELECT pg_advisory_xact_lock($1)`, int64(store.FreezeGate)))(t)
			acted := make(chan error, 1)
			go func() { acted <- act(ctx) }()
			waitFor(t, raw, "the other one to wait for the freeze", advisoryWaits)
			for _, table := range []string{"nodes", "chain_runs"} {
				if _, err := freeze.Exec(`SELECT id FROM ` + table + ` FOR UPDATE NOWAIT`); err != nil {
					t.Errorf("%s: %v", table, err)
				}
			}
			ok(t, freeze.Rollback())
			if err := <-acted; err != nil && broker.AsError(err).Kind != broker.Refused {
				t.Error(err)
			}
		})
	}
}

// A user for a node, a placement that waits for the node, and a freeze in between do not wait for each other.
// PostgreSQL would end that after a second: here it does not look.
func TestAUserAPlacementAndAFreezeDoNotStopEachOther(t *testing.T) {
	url := storetest.URL(t, "postgres")
	raw := storetest.Raw(t, url)
	var name string
	ok(t, raw.QueryRow(`SELECT current_database()`).Scan(&name))
	must(raw.Exec(`ALTER DATABASE "` + name + `" SET deadlock_timeout = '1h'`))(t)
	db := storetest.Reopen(t, url, nil)
	offered(t, db, "h100")
	n := stock(t, db, "h100", "dc1", 1)[0]
	holder := must(raw.BeginTx(ctx, nil))(t)
	must(holder.Exec(`SELECT 1 FROM nodes WHERE id = $1 FOR UPDATE`, n.ID))(t)
	const rowWaits = `SELECT COUNT(*) = %d FROM pg_stat_activity WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`
	freezes, cancel := context.WithCancel(ctx)
	defer cancel()
	let, placed, frozen := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { let <- letsInError(db, n, "by-hand") }()
	waitFor(t, raw, "the user to wait for the node", fmt.Sprintf(rowWaits, 1))
	go func() { _, err := asks(db, "a-1", "h100", 1); placed <- err }()
	waitFor(t, raw, "the placement to wait for the node", fmt.Sprintf(rowWaits, 2))
	go func() { _, _, _, err := db.Freeze(freezes, olga, "dc1", "now"); frozen <- err }()
	waitFor(t, raw, "the freeze to wait for both", advisoryWaits)
	ok(t, holder.Rollback())
	select {
	case err := <-let:
		ok(t, err)
	case <-time.After(20 * time.Second):
		t.Error("they wait for each other")
		cancel()
		ok(t, <-let)
	}
	refused(t, <-placed, "sku_unavailable")
	if err := <-frozen; freezes.Err() == nil {
		ok(t, err)
	}
}
