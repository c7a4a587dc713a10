package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestStoppedRunsAndOpenTokensAreThoseOfTheSitesAskedFor(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for i, status := range []chain.Status{chain.FailedRetryable, chain.FailedManual, chain.Running, chain.Completed} {
			for _, site := range []string{"dc1", "dc2"} {
				ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
					ID: fmt.Sprintf("r-%s-%d", site, i), Kind: "k", Site: site, Status: status, Direction: chain.Forward, Stage: "s", Attempt: 1, State: []byte(`{}`), UpdatedAt: db.Now(),
				}}}, nil))
				clock.Advance(time.Second)
			}
		}
		for want, sites := range map[string][]string{"[r-dc1-0 r-dc2-0 r-dc1-1 r-dc2-1]": nil, "[r-dc2-0 r-dc2-1]": {"dc2"}, "[]": {"dc3"}} {
			ids := []string{}
			for _, r := range must(db.StoppedRuns(ctx, sites, 10))(t) {
				ids = append(ids, r.ID)
			}
			if fmt.Sprint(ids) != want {
				t.Errorf("at %v are stopped %v, want %s", sites, ids, want)
			}
		}
		newNode(t, db, "waits")
		newMember(t, db, "came")
		soon, later := db.Now().Add(30*time.Minute), db.Now().Add(2*time.Hour)
		if got := must(db.TokensExpiring(ctx, nil, soon, 10))(t); len(got) != 0 {
			t.Errorf("soon expire %+v", got)
		}
		if got := must(db.TokensExpiring(ctx, nil, later, 10))(t); len(got) != 1 || got[0].Hostname != "waits" {
			t.Errorf("later expire %+v", got)
		}
		if got := must(db.TokensExpiring(ctx, []string{"dc1"}, later, 10))(t); len(got) != 0 {
			t.Errorf("at dc1 expire %+v", got)
		}
	})
}
