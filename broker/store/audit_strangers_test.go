package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// refusedFrom records the refusal of an enrolment without a known token.
func refusedFrom(t testing.TB, db *store.DB, code, remote string) {
	t.Helper()
	ok(t, db.AuditRefusal(ctx, broker.AuditEntry{Actor: "remote:" + remote, Action: "enroll.refused", Subject: "node/unknown", Code: code, Reason: "no"}))
}

func strangerRows(t testing.TB, db *store.DB, code string) []store.SealedEntry {
	t.Helper()
	return must(db.ListAudit(ctx, store.AuditFilter{Code: code, Limit: 1000}))(t)
}

func TestAFloodFromManyNetworksIsARowInTenMinutes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		begun := clock.Now()
		refusedFrom(t, db, "token_unknown", "192.0.2.1") // written unchanged
		for i := range 6000 {
			clock.Advance(10 * time.Millisecond)
			from := fmt.Sprintf("10.%d.%d.7", i/250, i%250) // 6,000 networks
			switch {
			case i%3 == 1:
				from = fmt.Sprintf("2001:db8:0:7::%x", i) // a single network
			case i%6 == 2:
				from = fmt.Sprintf("203.0.113.%d", i%200) // a single network
			}
			refusedFrom(t, db, "token_unknown", from)
			if i%500 == 0 {
				ok(t, db.FlushStrangers(ctx))
			}
		}
		ok(t, db.FlushStrangers(ctx))
		ok(t, db.SummariseStrangers(ctx))
		if got := strangerRows(t, db, "token_unknown"); len(got) != 1 || got[0].Actor != "remote:192.0.2.1" {
			t.Fatalf("before the time is over the rows are %+v", got)
		}
		clock.Advance(store.StrangersEvery)
		ok(t, db.SummariseStrangers(ctx))
		ok(t, db.SummariseStrangers(ctx))
		got := strangerRows(t, db, "token_unknown")
		if len(got) != 2 {
			t.Fatalf("6,001 refusals are %d rows", len(got))
		}
		said := fmt.Sprintf("6000 refusals of token_unknown between %s and %s, from 2001:db8:0:7::/64 (2000), 203.0.113.0/24 (1000), ",
			begun.Format(time.RFC3339), begun.Add(time.Minute).Format(time.RFC3339))
		if !strings.HasPrefix(got[1].Reason, said) || !strings.Contains(got[1].Reason, "other networks (") || len(got[1].Reason) > 1000 || len(got[1].After) > 8000 {
			t.Errorf("the summary is %q, with %d bytes", got[1].Reason, len(got[1].After))
		}

		// No more refusals, so no more rows.
		clock.Advance(store.StrangersEvery)
		ok(t, db.FlushStrangers(ctx))
		ok(t, db.SummariseStrangers(ctx))
		refusedFrom(t, db, "token_unknown", "198.51.100.4")
		if got = strangerRows(t, db, "token_unknown"); len(got) != 3 || got[2].Actor != "remote:198.51.100.4" {
			t.Errorf("after a while in which nobody came the rows are %+v", got[2:])
		}
	})
}

// Refusals counted and flushed by a broker are summarised by another broker.
func TestWhatWasCountedOfStrangersOutlivesTheBroker(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			clock, url := storetest.NewClock(), storetest.URL(t, engine)
			db := storetest.Reopen(t, url, clock.Now)
			for range 5 {
				refusedFrom(t, db, "token_unknown", "192.0.2.1")
			}
			ok(t, db.FlushStrangers(ctx))
			ok(t, db.Close())
			clock.Advance(store.StrangersEvery)
			db = storetest.Reopen(t, url, clock.Now)
			ok(t, db.SummariseStrangers(ctx))
			if got := strangerRows(t, db, "token_unknown"); len(got) != 2 || !strings.HasPrefix(got[1].Reason, "4 refusals of token_unknown ") || !strings.HasSuffix(got[1].Reason, "from 192.0.2.0/24 (4)") {
				t.Errorf("the rows are %+v", got)
			}
		})
	}
}

// A known token is somebody's secret: refusals after its use are grouped by its node, whatever the
// caller's address.
func TestAUsedTokenIsToldByItsNodeAndNotByWhereItIsShown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for _, node := range []string{"n-1", "n-2"} {
			for i := range 300 {
				ok(t, db.AuditRefusal(ctx, broker.AuditEntry{Actor: fmt.Sprintf("remote:10.0.%d.1", i), Action: "enroll.refused", Subject: "node/" + node, Code: "token_used", Reason: "no"}))
			}
		}
		if got := strangerRows(t, db, "token_used"); len(got) != 2 || got[0].Subject != "node/n-1" || got[1].Subject != "node/n-2" {
			t.Fatalf("600 refusals are the rows %+v", got)
		}
		clock.Advance(time.Minute)
		ok(t, db.AuditRefusal(ctx, broker.AuditEntry{Actor: "remote:10.9.9.9", Action: "enroll.refused", Subject: "node/n-1", Code: "token_used", Reason: "no"}))
		if got := strangerRows(t, db, "token_used"); len(got) != 3 || got[2].Reason != "no (and 299 similar refusals since the last entry)" {
			t.Errorf("a minute later the rows are %+v", got)
		}
	})
}

func TestAnAddressCountsAsItsNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "unknown": "", "": "",
	} {
		if got := store.NetworkOf(address); got != want {
			t.Errorf("%q is of %q, want %q", address, got, want)
		}
	}
}
