package retention_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A certificate stays on record as long as it may renew after its expiry.
func TestNothingGoesThatMayStillRenew(t *testing.T) {
	if retention.Certificates <= nodeapi.DefaultRenewGrace {
		t.Errorf("certificates are kept for %v and may renew for %v", retention.Certificates, nodeapi.DefaultRenewGrace)
	}
}

func TestAnEmptyStoreIsLeftAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		clock.Advance(365 * 24 * time.Hour)
		k := &retention.Keeper{DB: db, Log: zap.NewNop()}
		if err := k.Drop(t.Context()); err != nil {
			t.Error(err)
		}
		if rows, err := db.ListAudit(t.Context(), store.AuditFilter{Action: "certificate.dropped"}); err != nil || len(rows) != 0 {
			t.Errorf("audited %v, %v", rows, err)
		}
	})
}

// closedTerminal makes a finished session whose node knows the end.
func closedTerminal(ctx context.Context, db *store.DB, n broker.Node) error {
	_, err := db.CreateTerminalSession(ctx, broker.Actor{Name: "ada"}, broker.TerminalSession{ID: "ts-1", NodeID: n.ID, NodeEpoch: n.Epoch, Username: "u", Reason: "a look"})
	if err == nil {
		_, err = db.MoveTerminalSession(ctx, broker.Actor{Name: "ada"}, "ts-1", store.TerminalMove{To: broker.TerminalClosed})
	}
	return errors.Join(err, db.ToldTerminal(ctx, "ts-1"))
}

// Only the policy's time decides when tasks, runs, terminals, holds and baselines are old; 0 keeps
// them forever.
func TestTasksAndRunsAreKeptForAsLongAsThePolicySays(t *testing.T) {
	const day = 24 * time.Hour
	forEver, least := time.Duration(0), retention.LeastFor
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		e, err := chain.New(db, nil, chain.Options{}, chain.Chain[struct{}]{Kind: "k", Stages: []chain.Stage[struct{}]{{
			Name: "s", Do: func(context.Context, *chain.Run[struct{}]) error { return nil },
		}}})
		if err != nil {
			t.Fatal(err)
		}
		run := func(id string) {
			t.Helper()
			if _, err := e.Start(t.Context(), chain.Start{ID: id, Kind: "k", Site: "dc1", State: struct{}{}}); err != nil {
				t.Fatal(err)
			}
			if worked, err := e.Step(t.Context()); err != nil || !worked {
				t.Fatal(worked, err)
			}
		}
		is := func(p retention.Policy, want string) {
			t.Helper()
			k := &retention.Keeper{DB: db, History: p, Log: zap.NewNop()}
			if err := k.Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
			runs, err := db.Runs(t.Context(), chain.Filter{})
			var ids []string
			for _, r := range runs {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != want || err != nil {
				t.Errorf("%s are left, want %s, %v", got, want, err)
			}
		}
		admin := broker.Actor{Name: "ada"}
		n, err := db.CreateNode(t.Context(), admin, store.NewNode{ID: "n-1", Hostname: "gpu-1", Site: "dc1"})
		for _, digest := range []string{"sha256:was", "sha256:is"} {
			if err == nil {
				err = db.SaveBaseline(t.Context(), admin, n.ID, digest, []byte("{}"), "test")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		had := func() bool {
			_, err := db.Baseline(t.Context(), "sha256:was")
			if _, err := db.Baseline(t.Context(), "sha256:is"); err != nil {
				t.Error(err)
			}
			return err == nil
		}
		hold := chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "leak"}
		for _, err := range []error{
			db.PlaceHold(t.Context(), chain.Actor{Name: "ada"}, hold), db.LiftHold(t.Context(), chain.Actor{Name: "ada"}, hold.Site, hold.Kind, "mended"), closedTerminal(t.Context(), db, n),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		others := func() bool {
			holds, err := db.Holds(t.Context(), "dc1", time.Time{})
			_, none := db.TerminalSession(t.Context(), "ts-1")
			if err != nil || (len(holds) == 0) != (none != nil) {
				t.Errorf("holds are %v, %v, and of the terminal %v", holds, err, none)
			}
			return none == nil
		}
		for i := range 4 { // 0, 100, 200, 300 days
			run(fmt.Sprint("r-", i))
			clock.Advance(100 * day)
		}
		is(retention.Policy{}, "r-0 r-1 r-2 r-3") // the first run ended 400 days ago, and not earlier
		clock.Advance(time.Second)
		if is(retention.Policy{For: &forEver}, "r-0 r-1 r-2 r-3"); !had() || !others() {
			t.Error("what is to be kept for ever is gone")
		}
		if is(retention.Policy{}, "r-1 r-2 r-3"); had() || others() {
			t.Error("a baseline that is old and no node's is left, or a terminal or a hold")
		}
		run("r-4")
		is(retention.Policy{For: &least}, "r-4")
	})
}

func TestAPolicyThatWouldForgetWhatIsStillAskedForIsRefused(t *testing.T) {
	for keep, code := range map[time.Duration]string{0: "", retention.LeastFor: "", retention.DefaultFor: "", retention.LeastFor - 1: "config_invalid", -time.Hour: "config_invalid", time.Nanosecond: "config_invalid"} {
		if err := (retention.Policy{For: &keep}).Check(); (err == nil) != (code == "") || err != nil && broker.AsError(err).Code != code {
			t.Errorf("%s: %v", keep, err)
		}
	}
	if err := (retention.Policy{}).Check(); err != nil {
		t.Error(err)
	}
	for _, least := range []time.Duration{store.ProbeWithin, nodeapi.DefaultRenewGrace} {
		if retention.LeastFor <= least {
			t.Errorf("tasks may be gone after %v and are asked for within %v", retention.LeastFor, least)
		}
	}
}
