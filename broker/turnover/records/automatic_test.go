package records

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// follows is a broker with nodes that are turned over after their tenants.
type follows struct {
	*quiet
	automatic *Automatic
	tenants   int
}

func newFollows(t *testing.T, db *store.DB, clock *storetest.Clock, policy func(*broker.Policy)) *follows {
	q := newQuiet(t, db, clock, "4y3h7a", policy)
	return &follows{quiet: q, automatic: &Automatic{Starts: q.silence.Starts, Log: zap.NewNop()}}
}

// lets puts a tenant on a node, and returns the name of the allocation.
func (f *follows) lets(node string) string {
	f.t.Helper()
	f.tenants++
	a := fmt.Sprint("a-", f.tenants)
	f.task(node, "allocation.provision_user", fmt.Sprintf(`{"allocation_id":%q,"username":"u","ssh_keys":["k"],"tenant":"acme"}`, a))
	return a
}

func (f *follows) ends(node, allocation string) {
	f.t.Helper()
	f.task(node, "allocation.revoke_user", fmt.Sprintf(`{"allocation_id":%q,"username":"u"}`, allocation), broker.EndAllocation{AllocationID: allocation})
}

// leaves has a tenant come and go.
func (f *follows) leaves(node string) {
	f.t.Helper()
	f.ends(node, f.lets(node))
}

// task has a node do a task.
func (f *follows) task(node, typ, params string, effects ...broker.Effect) {
	f.t.Helper()
	n, err := f.db.Node(f.ctx, node)
	f.ok(err)
	f.tenants++
	k, _, err := f.db.InsertTask(f.ctx, broker.System, broker.Task{
		ID: fmt.Sprint("t-", node, f.tenants), NodeID: node, NodeEpoch: n.Epoch, Type: typ, Version: 1, Class: taskcatalog.ClassMutating,
		Lane: taskcatalog.LaneExclusive, Params: json.RawMessage(params), NotAfter: f.clock.Now().Add(time.Hour), Envelope: []byte("e"),
		EnvelopeDigest: "sha256:e", Nonce: fmt.Sprint("n", f.tenants),
	})
	f.ok(err)
	_, _, err = f.db.ClaimTasks(f.ctx, node, n.Epoch, []taskcatalog.Lane{taskcatalog.LaneExclusive}, 1)
	f.ok(err)
	_, _, err = f.db.RecordResult(f.ctx, store.Result{
		NodeID: node, Epoch: n.Epoch, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded,
	}, effects)
	f.ok(err)
	f.ok(f.db.TouchNodes(f.ctx, map[string]time.Time{node: f.clock.Now()}))
}

// begun looks once, and returns the open turnovers of all nodes.
func (f *follows) begun() (all []chain.Record) {
	f.t.Helper()
	f.ok(f.automatic.Look(f.ctx))
	all, err := f.db.Runs(f.ctx, chain.Filter{Site: "dc1", Statuses: []chain.Status{chain.Pending, chain.Running, chain.FailedManual}})
	f.ok(err)
	return all
}

func (f *follows) want(when string, nodes ...string) (all []chain.Record) {
	f.t.Helper()
	all = f.begun()
	var of []string
	for _, r := range all {
		of = append(of, r.Subject)
	}
	if slices.Sort(of); !slices.Equal(of, nodes) {
		f.t.Fatalf("%s: turnovers of %v are begun, want %v", when, of, nodes)
	}
	return all
}

// A node is turned over after its tenant, once, whoever looks and however often, and says for which
// tenant.
func TestATurnoverFollowsATenant(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		f.want("nobody was there")
		a := f.lets(f.node)
		f.want("a tenant is there")
		f.ends(f.node, a)
		var all sync.WaitGroup
		for range 3 { // brokers that all take themselves for the leader
			other := &Automatic{Starts: f.automatic.Starts, Log: zap.NewNop()}
			all.Go(func() {
				if err := other.Look(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		r := f.want("the tenant left", "gpu-1")[0]
		var s turnover.Turnover
		f.ok(json.Unmarshal(r.State, &s))
		if s.Mode != turnover.Reimage || s.Erase != "secure" || s.From != broker.Active || r.RequestedBy != "system" || s.ForceRelease ||
			!strings.Contains(s.Reason, "allocation "+a+" of tenant acme") {
			t.Errorf("%s of %s: %+v", r.ID, r.RequestedBy, s)
		}
	})
}

// A run that a person has cancelled is not begun again, until another tenant has left.
func TestACancelledTurnoverIsNotBegunAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		f.leaves(f.node)
		r := f.want("the tenant left", "gpu-1")[0]
		f.act(r.ID, chain.Cancel)
		if r := f.settle(r.ID); r.Status != chain.Cancelled {
			t.Fatalf("the run is %s", r.Status)
		}
		n, err := db.Node(f.ctx, f.node)
		f.ok(err)
		if n.Status != broker.Active { // cancelled before its first stage
			t.Fatalf("the node is %s", n.Status)
		}
		f.want("cancelled")
		clock.Advance(time.Second)
		f.leaves(f.node)
		f.want("another tenant left", "gpu-1")
	})
}

// A node that nobody has used is turned over when its certificate has run out.
func TestATurnoverFollowsACertificate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		_, err := db.KeepCleanCertificate(f.ctx, broker.System, store.CleanCertificate{
			ID: "c-1", RunID: "r-1", NodeID: f.node, NodeEpoch: 1, Mode: "soft_reset", MeetsPolicy: true, Digest: "sha256:c", IssuedAt: db.Now(),
			ValidUntil: db.Now().Add(time.Hour), File: []byte("{}"),
		})
		f.ok(err)
		sweeps := func() {
			t.Helper()
			f.ok(db.TouchNodes(f.ctx, map[string]time.Time{f.node: clock.Now()}))
			_, err := db.SweepAvailability(f.ctx)
			f.ok(err)
		}
		sweeps()
		f.want("valid")
		clock.Advance(time.Hour)
		sweeps()
		r := f.want("run out", "gpu-1")[0]
		var s turnover.Turnover
		f.ok(json.Unmarshal(r.State, &s))
		if !strings.Contains(s.Reason, "certificate c-1 was valid until") {
			t.Errorf("the reason is %q", s.Reason)
		}
		f.want("again", "gpu-1")
	})
}

func TestNoTurnoverFollowsATenant(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*broker.Policy)
		meets  func(*follows)
	}{
		"switched off": {func(p *broker.Policy) { p.TurnoverAutomatic = false }, func(*follows) {}},
		"frozen": {func(*broker.Policy) {}, func(f *follows) {
			_, _, _, err := f.db.Freeze(f.ctx, broker.System, "dc1", "a smell")
			f.ok(err)
		}},
		"the site is unreachable": {func(*broker.Policy) {}, func(f *follows) {
			f.ok(f.db.PlaceHold(f.ctx, chain.Actor{Name: "system"}, chain.SiteHold{Site: "dc1", Kind: chain.Unreachable}))
		}},
		"the site is disabled": {func(*broker.Policy) {}, func(f *follows) {
			_, err := f.db.UpdateSite(f.ctx, broker.System, "dc1", "", func(s *broker.Site) error { s.Status = broker.SiteDisabled; return nil })
			f.ok(err)
		}},
		"the node is silent": {func(*broker.Policy) {}, func(f *follows) { f.clock.Advance(broker.SilentAfter + time.Second) }},
		"the node is quarantined": {func(*broker.Policy) {}, func(f *follows) {
			f.moves(broker.OwnerOperator, broker.Quarantined)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				f := newFollows(t, db, clock, c.policy)
				f.leaves(f.node)
				c.meets(f)
				f.want(name)
			})
		})
	}
}

// Brokers that begin turnovers at the same moment do not exceed the limit.
func TestAPlaceIsGivenOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(p *broker.Policy) { p.AutomaticTurnoversAtOnce = 2 })
		for i := 2; i <= 8; i++ {
			f.join(fmt.Sprint("n-", i), fmt.Sprint("gpu-", i), fmt.Sprint("4y3h7", i))
			f.leaves(fmt.Sprint("n-", i))
		}
		idle, err := db.LeftNodes(f.ctx)
		f.ok(err)
		var all sync.WaitGroup
		for _, n := range idle {
			all.Go(func() {
				if _, err := f.automatic.begin(t.Context(), n, &stock{db: db, site: n.Site}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if open, err := db.OpenRuns(f.ctx, "dc1", turnover.ByThemselves...); err != nil || open < 1 || open > 2 {
			t.Errorf("%d turnovers are open (%v)", open, err)
		}
		for range 3 {
			f.begun()
		}
		if open, err := db.OpenRuns(f.ctx, "dc1", turnover.ByThemselves...); err != nil || open != 2 {
			t.Errorf("%d turnovers are open (%v), want 2", open, err)
		}
	})
}

// The node that was left first is turned over first, and no more nodes at once than the policy
// says. A run that waits for a person counts. A node that has to wait for too long is an alert.
func TestOnlySoManyNodesAreTurnedOverAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(p *broker.Policy) { p.AutomaticTurnoversAtOnce = 2 })
		for i := 2; i <= 4; i++ {
			f.join(fmt.Sprint("n-", i), fmt.Sprint("gpu-", i), fmt.Sprint("4y3h7", i))
		}
		for _, node := range []string{"n-4", "n-3", "n-2", f.node} {
			f.leaves(node)
			clock.Advance(time.Second)
		}
		all := f.want("four were left", "gpu-3", "gpu-4")
		f.want("again", "gpu-3", "gpu-4")
		f.act(all[0].ID, chain.MarkManual)
		f.want("one waits for a person", "gpu-3", "gpu-4")
		clock.Advance(store.TurnoverWithin)
		for _, node := range []string{"n-2", f.node} {
			f.ok(db.TouchNodes(f.ctx, map[string]time.Time{node: clock.Now()}))
		}
		_, err := db.SweepAvailability(f.ctx)
		f.ok(err)
		if alone, err := db.LeftAlone(f.ctx, nil); err != nil || len(alone) != 1 || alone[0].Nodes != 2 {
			t.Errorf("%+v (%v), want an alert for two nodes", alone, err)
		}
		f.act(all[0].ID, chain.Cancel)
		f.settle(all[0].ID)
		f.want("one has ended", "gpu-2", all[1].Subject)
	})
}
