package records

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
)

// certify gives a node a certificate that was issued now.
func (f *follows) certify(node string, valid time.Duration) {
	f.t.Helper()
	_, err := f.db.KeepCleanCertificate(f.ctx, broker.System, store.CleanCertificate{
		ID: "c-" + node, RunID: "r-" + node, NodeID: node, NodeEpoch: 1, Mode: "soft_reset", MeetsPolicy: true, Digest: "sha256:c",
		IssuedAt: f.db.Now(), ValidUntil: f.db.Now().Add(valid), File: []byte("{}"),
	})
	f.ok(err)
}

// sweeps lets all nodes be heard, and judges them.
func (f *follows) sweeps(nodes ...string) {
	f.t.Helper()
	for _, n := range nodes {
		f.ok(f.db.TouchNodes(f.ctx, map[string]time.Time{n: f.clock.Now()}))
	}
	_, err := f.db.SweepAvailability(f.ctx)
	f.ok(err)
}

// Free nodes are renewed before their certificates run out, the first one first. As many nodes of a SKU stay
// available as are in turnover, and nodes that nobody can use go first.
func TestFreeNodesAreRenewedAhead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(p *broker.Policy) { p.AutomaticTurnoversAtOnce = 4 })
		nodes := []string{f.node}
		for i := 2; i <= 6; i++ {
			nodes = append(nodes, fmt.Sprint("n-", i))
			f.join(nodes[i-1], fmt.Sprint("gpu-", i), fmt.Sprint("4y3h7", i))
		}
		for i, n := range nodes { // the last one runs out first
			f.certify(n, 100*time.Hour-time.Duration(i)*time.Minute)
		}
		f.sweeps(nodes...)
		f.want("just certified")
		clock.Advance(69 * time.Hour)
		f.sweeps(nodes...)
		f.want("more than the last part of the validity is left")
		clock.Advance(22 * time.Hour)
		f.sweeps(nodes...)
		all := f.want("the certificates soon run out", "gpu-4", "gpu-5", "gpu-6")
		var s turnover.Turnover
		f.ok(json.Unmarshal(all[0].State, &s))
		if !strings.Contains(s.Reason, "is valid until") || all[0].RequestedBy != "system" {
			t.Errorf("the reason is %q, of %s", s.Reason, all[0].RequestedBy)
		}
		f.sweeps(nodes...)
		words, err := db.Availability(f.ctx, nodes)
		f.ok(err)
		for i, n := range nodes {
			if want := map[bool]broker.Availability{true: broker.InTurnover, false: broker.Available}[i >= 3]; words[n].Word != want {
				t.Errorf("node %s is %s, want %s", n, words[n].Word, want)
			}
		}
		f.want("three are available, and three are not", "gpu-4", "gpu-5", "gpu-6")
		f.leaves("n-3")
		f.sweeps(nodes...)
		f.want("a tenant left", "gpu-3", "gpu-4", "gpu-5", "gpu-6")
	})
}

// The last available node of a SKU is left to the tenants until its certificate has run out.
func TestTheLastFreeNodeIsNotRenewedAhead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		f.certify(f.node, 100*time.Hour)
		clock.Advance(99 * time.Hour)
		f.sweeps(f.node)
		f.want("it soon runs out")
		clock.Advance(time.Hour)
		f.sweeps(f.node)
		f.want("it has run out", "gpu-1")
	})
}

// A free node that a tenant was given at the last moment is not taken.
func TestARenewalTakesNoNodeOfATenant(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		n, err := db.Node(f.ctx, f.node)
		f.ok(err)
		at, err := f.automatic.Starts.Place(f.ctx, n, "")
		f.ok(err)
		state, locks, err := turnover.New(n, at, turnover.Request{Mode: turnover.SoftReset, Erase: turnover.EraseNone, Reason: "r", RequestedBy: "system", From: broker.Active})
		f.ok(err)
		start := NewStart(n, state, locks, Requester{Name: "system"})
		start.ID, start.Effects = "auto-1", []any{broker.TakeFree{NodeID: n.ID}}
		a := f.lets(f.node)
		if _, err := f.automatic.Starts.StartInPlace(f.ctx, start, 10, nil); err == nil || !strings.Contains(err.Error(), "node_not_free") && !strings.Contains(err.Error(), "while it may be handed out") {
			t.Errorf("with tenant %s: %v", a, err)
		}
		all, err := db.Runs(f.ctx, chain.Filter{Site: "dc1"})
		f.ok(err)
		if slices.ContainsFunc(all, func(r chain.Record) bool { return r.ID == "auto-1" }) {
			t.Error("the run has begun")
		}
	})
}

// Free nodes whose certificate is below a stricter policy are turned over by themselves, by the policy in force, up to the
// limit of the site and after nodes that tenants have left. What an allocation holds is left alone.
func TestFreeNodesBelowAStricterPolicyAreTurnedOver(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			clock := storetest.NewClock()
			db, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, engine), Now: clock.Now, Judge: func(_ []byte, p broker.TurnoverPolicy) []string {
				if p.DiskGrade == "purge" {
					return []string{"method_below_policy"}
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			f := newFollows(t, db, clock, func(p *broker.Policy) { p.AutomaticTurnoversAtOnce = 2 })
			nodes := []string{f.node}
			for i := 2; i <= 4; i++ {
				nodes = append(nodes, fmt.Sprint("n-", i))
				f.join(nodes[i-1], fmt.Sprint("gpu-", i), fmt.Sprint("4y3h7", i))
			}
			for _, n := range nodes {
				f.certify(n, 100*time.Hour)
			}
			f.lets("n-4")
			last := f.lets("n-3")
			f.sweeps(nodes...)
			f.want("just certified")
			s, err := db.Site(f.ctx, "dc1")
			f.ok(err)
			clock.Advance(time.Minute)
			_, err = db.UpdateProfile(f.ctx, broker.System, s.ID, "", "audit", func(p *broker.Profile) error { p.Policy.DiskGrade = "purge"; return nil })
			f.ok(err)
			f.ends("n-3", last)
			f.sweeps(nodes...)
			all := f.want("a tenant left, and the policy is stricter", "gpu-2", "gpu-3")
			at := slices.IndexFunc(all, func(r chain.Record) bool { return r.Subject == "gpu-2" })
			var state turnover.Turnover
			f.ok(json.Unmarshal(all[at].State, &state))
			if !strings.Contains(state.Reason, "the policy asks for more since certificate c-n-2 was issued: method_below_policy") ||
				state.Policy.DiskGrade != "purge" || all[at].ID != turnover.AutomaticOf("n-2", clock.Now()) {
				t.Errorf("%s because %q, by %+v", all[at].ID, state.Reason, state.Policy)
			}
		})
	}
}
