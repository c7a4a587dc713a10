package store_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The next of ten thousand runs waiting in a batch is read from an index, without sorting: each run
// is claimed once, and each claim would otherwise read all runs.
func TestTheNextOfABatchIsReadByItsIndex(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	storetest.Reopen(t, url, nil)
	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	query, args := store.ClaimInBatchQuery(chain.Claim{Owner: "o", Kinds: []string{"onboarding"}, Lists: []string{"l"}}, time.Now())
	if plan := planOf(t, raw, query, args...); !strings.Contains(plan, "chain_runs_next") || strings.Contains(plan, "TEMP B-TREE") {
		t.Error(plan)
	}
	if plan := planOf(t, raw, store.WithRoomQuery); !strings.Contains(plan, "SEARCH w ") || !strings.Contains(plan, "SEARCH m ") {
		t.Error(plan)
	}
}
