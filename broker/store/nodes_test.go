package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestAHostnameIsFreeAgainOnceItsNodeIsDeleted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newNode(t, db, "gpu-1")
		_, err := db.CreateNode(ctx, admin, store.NewNode{ID: "n-b", Hostname: "gpu-1", Bootstrap: "command"})
		refused(t, err, "hostname_taken")
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-c", Hostname: "gpu-1", Site: "dc1", Bootstrap: "command"}))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Deleted, By: broker.OwnerRemoval, Reason: "never came"}))(t)
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-d", Hostname: "gpu-1", Bootstrap: "command"}))(t)
	})
}

func TestANodeIsFoundByWhatAPersonWrites(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for _, n := range []store.NewNode{
			{ID: "n-aaaa", Hostname: "gpu-1", Site: "dc1"},
			{ID: "n-aabb", Hostname: "gpu-1", Site: "dc2"},
			{ID: "n-cccc", Hostname: "gpu-2", Site: "dc1"},
			{ID: "n-dddd", Hostname: "n-aaaa", Site: "dc3"}, // a hostname like another node's id
			{ID: "n-eeee", Hostname: "old", Site: "dc1"},
			{ID: "n-ffff", Hostname: "old2"},
		} {
			n.Bootstrap = "command"
			must(db.CreateNode(ctx, admin, n))(t)
		}
		must(db.Transition(ctx, admin, "n-eeee", store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		for _, c := range []struct {
			ref   string
			sites []string
			want  string // an id, or a code
		}{
			{"n-aaaa", nil, "n-aaaa"},
			{"n-c", nil, "n-cccc"},
			{"n-aab", nil, "n-aabb"},
			{"n-aa", nil, "ambiguous_node"},
			{"gpu-2", nil, "n-cccc"},
			{"gpu-1", nil, "ambiguous_node"},
			{"dc2/gpu-1", nil, "n-aabb"},
			{"dc9/gpu-1", nil, "node_not_found"},
			{"/old2", nil, "n-ffff"},
			{"gpu-1", []string{"dc1"}, "n-aaaa"},
			{"n-cccc", []string{"dc2"}, "node_not_found"},
			{"dc1/gpu-2", []string{"dc2"}, "node_not_found"},
			{"old", nil, "node_not_found"},
			{"n-eee", nil, "node_not_found"},
			{"n-eeee", nil, "n-eeee"},
			{"", nil, "node_not_found"},
			{"%", nil, "node_not_found"},
			{"n-____", nil, "node_not_found"},
			{"' OR 1=1 --", nil, "node_not_found"},
		} {
			n, err := db.FindNode(ctx, c.ref, c.sites)
			got := n.ID
			if err != nil {
				got = broker.AsError(err).Code
			}
			if got != c.want {
				t.Errorf("%q among %v is %s, want %s", c.ref, c.sites, got, c.want)
			}
		}
		_, err := db.FindNode(ctx, "gpu-1", nil)
		if msg := err.Error(); !strings.Contains(msg, "n-aaaa (dc1/gpu-1)") || !strings.Contains(msg, "n-aabb (dc2/gpu-1)") {
			t.Errorf("the candidates are not named: %s", msg)
		}
	})
}

func TestNodesAreListedInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i := range 7 {
			must(db.CreateNode(ctx, admin, store.NewNode{
				ID: fmt.Sprintf("n-%d", i), Hostname: fmt.Sprintf("h%d", i), Site: []string{"dc1", "dc2"}[i%2], Bootstrap: "command", Labels: map[string]string{"rack": fmt.Sprint(i % 3)},
			}))(t)
		}
		must(db.Transition(ctx, admin, "n-6", store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		ids := func(f store.NodeFilter) (out []string) {
			for {
				page, next, err := db.ListNodes(ctx, f)
				ok(t, err)
				for _, n := range page {
					out = append(out, n.ID)
				}
				if next == "" {
					return out
				}
				f.After = next
			}
		}
		for _, c := range []struct {
			f    store.NodeFilter
			want []string
		}{
			{store.NodeFilter{Limit: 2}, []string{"n-0", "n-1", "n-2", "n-3", "n-4", "n-5"}},
			{store.NodeFilter{Limit: 3}, []string{"n-0", "n-1", "n-2", "n-3", "n-4", "n-5"}},
			{store.NodeFilter{Sites: []string{"dc1"}, Limit: 1}, []string{"n-0", "n-2", "n-4"}},
			{store.NodeFilter{Deleted: true, Sites: []string{"dc1"}}, []string{"n-0", "n-2", "n-4", "n-6"}},
			{store.NodeFilter{Statuses: []broker.NodeStatus{broker.Deleted}}, []string{"n-6"}},
			{store.NodeFilter{Labels: map[string]string{"rack": "0"}, Limit: 1}, []string{"n-0", "n-3"}},
			{store.NodeFilter{Hostname: "h5"}, []string{"n-5"}},
		} {
			if got := ids(c.f); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.f, got, c.want)
			}
		}
		if got := must(db.CountNodes(ctx))(t); got[broker.BootstrapIssued] != 6 || got[broker.Deleted] != 1 {
			t.Errorf("counted %v", got)
		}
	})
}

func TestATransitionIsMadeByTheTableAndAudited(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		clock.Advance(time.Second)
		got := must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "baseline taken", CorrelationID: "c-1"}))(t)
		if stored := must(db.Node(ctx, n.ID))(t); stored.Status != broker.Active || stored.StatusReason != "baseline taken" || !stored.UpdatedAt.Equal(clock.Now()) || got.Status != stored.Status {
			t.Fatalf("stored %+v", stored)
		}
		rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "node.transition"}))(t)
		if len(rows) != 1 || rows[0].Actor != "ada" || rows[0].Subject != "node/"+n.ID || rows[0].CorrelationID != "c-1" || !strings.Contains(string(rows[0].Before), "enrolling") || !strings.Contains(string(rows[0].After), "active") {
			t.Fatalf("audited %+v", rows)
		}
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerHeartbeat}))(t) // already so
		must(db.Transition(ctx, admin, n.ID, store.Change{From: broker.Draining, To: broker.Retired, By: broker.OwnerDrain}))(t)
		if rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "node.transition"}))(t); len(rows) != 1 {
			t.Fatalf("what changed nothing was audited: %+v", rows[1:])
		}
		_, err := db.Transition(ctx, admin, n.ID, store.Change{To: broker.Deleted, By: broker.OwnerOperator})
		refused(t, err, "transition_refused")
		if must(db.Node(ctx, n.ID))(t).Status != broker.Active || audited(t, db, "node.transition", "transition_refused") != 1 {
			t.Fatal("a refusal changed the node, or was not audited")
		}
	})
}

func TestNothingLeadsToActiveWhileATurnoverIsOwed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "one")
		move := func(c store.Change) error {
			_, err := db.Transition(ctx, admin, n.ID, c)
			return err
		}
		ok(t, move(store.Change{To: broker.Active, By: broker.OwnerOnboarding}))
		ok(t, move(store.Change{To: broker.Draining, By: broker.OwnerTurnover, OweTurnover: true}))
		ok(t, move(store.Change{To: broker.Retired, By: broker.OwnerTurnover}))
		refused(t, move(store.Change{To: broker.Active, By: broker.OwnerTurnover}), "turnover_owed")
		refused(t, move(store.Change{To: broker.Active, By: broker.OwnerOperator}), "turnover_owed")
		ok(t, move(store.Change{To: broker.Active, By: broker.OwnerTurnover, ClearTurnover: true}))
		if must(db.Node(ctx, n.ID))(t).TurnoverOwed {
			t.Fatal("the mark is still there")
		}
		storetest.OweTurnover(t, db, n.ID, true)
		ok(t, move(store.Change{To: broker.Quarantined, By: broker.OwnerOperator}))
		ok(t, move(store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "checked by hand"}))
		if must(db.Node(ctx, n.ID))(t).TurnoverOwed {
			t.Fatal("the override left the mark")
		}
	})
}

func TestLabelsAreMerged(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newNode(t, db, "one")
		must(db.SetLabels(ctx, admin, n.ID, map[string]string{"rack": "7", "row": "b"}))(t)
		must(db.SetLabels(ctx, admin, n.ID, map[string]string{"rack": "", "owner": "x"}))(t)
		if got := must(db.Node(ctx, n.ID))(t).Labels; fmt.Sprint(got) != "map[owner:x row:b]" {
			t.Fatalf("labels %v", got)
		}
		_, err := db.SetLabels(ctx, admin, "n-none", map[string]string{"a": "b"})
		refused(t, err, "node_not_found")
	})
}
