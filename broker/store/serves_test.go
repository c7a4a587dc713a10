package store_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A broker that serves without leading, as between the death of a leader and the next leader, hands
// out tasks that a hold would keep.
func TestADatabaseThatABrokerServesFromIsNotHeld(t *testing.T) {
	url := storetest.URL(t, "postgres")
	serves := func() *store.DB {
		t.Helper()
		return must(store.Open(ctx, store.Options{URL: url, Serves: true}))(t)
	}
	a, b := serves(), serves()
	tool := storetest.Reopen(t, url, nil) // serves nobody
	hold := func() error {
		_, err := tool.MarkRestored(ctx, admin, time.Time{}, "a backup")
		return err
	}
	refused(t, hold(), "broker_running")
	ok(t, a.Close())
	refused(t, hold(), "broker_running")

	// The broker's connection is lost, and the broker continues to serve.
	raw := must(sql.Open("pgx", url))(t)
	defer func() { _ = raw.Close() }()
	var killed string
	ok(t, raw.QueryRow(`SELECT COALESCE(string_agg(pid::text, ','), '') FROM (SELECT pid, pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) shown`).Scan(&killed))
	if killed == "" {
		t.Fatal("no connection shows that it serves")
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for deadline := time.After(20 * time.Second); !is(); {
			select {
			case <-look.C:
			case <-deadline:
				t.Fatal(what)
			}
		}
	}
	eventually("it does not show again that it serves", func() (shows bool) {
		ok(t, raw.QueryRow(`SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid::text <> ALL (string_to_array($1, ','))
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, killed).Scan(&shows))
		return shows
	})
	refused(t, hold(), "broker_running")
	ok(t, b.Close())

	// A broker of an earlier release shows only that it leads.
	former := must(raw.Conn(ctx))(t)
	_ = must(former.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(store.LeadLock)))(t)
	refused(t, hold(), "broker_running")
	_ = must(former.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(store.LeadLock)))(t)
	ok(t, former.Close())
	eventually("with nobody who serves it is not held", func() bool { return hold() == nil }) // the server releases a lock a moment later
	if e := must(tool.LastRestore(ctx))(t); !e.Held() {
		t.Error("it is not held")
	}
	c := serves()
	defer func() { _ = c.Close() }()
	if err := hold(); broker.AsError(err).Code != "broker_running" {
		t.Errorf("a broker has started on it: %v", err)
	}
}
