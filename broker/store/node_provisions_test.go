package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A node that cannot be provisioned again and again is handed to nobody until a person activates it, and
// everybody who looks is told why.
func TestANodeThatCannotBeProvisionedIsHeld(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		bad := stock(t, db, "h100", "dc1", 1)[0]
		provision := func(id string, end store.AllocationChange) {
			t.Helper()
			ok(t, db.TouchNodes(ctx, map[string]time.Time{bad.ID: clock.Now()}))
			must(asks(db, id, "h100", 1))(t)
			must(db.TransitionAllocation(ctx, broker.System, id, toProvisioning))(t)
			must(db.TransitionAllocation(ctx, broker.System, id, end))(t)
			must(db.TransitionAllocation(ctx, broker.System, id, end))(t) // a broker that died before its save
		}
		fails := store.AllocationChange{
			To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "node_not_ready", HoldAfter: 2,
			Faults: []broker.ProvisionFault{{NodeID: bad.ID, Code: "login_refused", Message: "sshd is away"}},
		}
		blameless := store.AllocationChange{To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "ssh_key_not_found"}
		succeeds := store.AllocationChange{To: broker.AllocationActive, By: broker.AllocationWorker, Provisioned: []string{bad.ID}}
		held := func(when string, want bool) {
			t.Helper()
			swept(t, db)
			got := word(t, db, bad.ID)
			if is := got == "held provisioning_failing"; is != want {
				t.Fatalf("%s: the node is %q", when, got)
			}
			all := must(db.Unprovisionable(ctx, []string{"dc1"}))(t)
			if (len(all) == 1 && all[0].Site == "dc1" && all[0].Nodes == 1 && !all[0].Since.IsZero()) != want {
				t.Errorf("%s: held are %+v", when, all)
			}
		}

		provision("a-1", fails)
		held("after one failure", false)
		provision("a-2", blameless)
		held("after a failure for which the node is not at fault", false)
		provision("a-3", succeeds)
		if n := must(db.Handout(ctx, bad))(t).Provisions.Failures; n != 0 {
			t.Errorf("after a success %d failures count", n)
		}
		ok(t, store.Exec(ctx, db, `UPDATE allocation_claims SET ended_at = 1 WHERE allocation_id = 'a-3'`))
		provision("a-4", fails)
		held("after a success and another failure", false)
		provision("a-5", fails)
		held("after two failures", true)

		_, err := asks(db, "a-6", "h100", 1)
		refused(t, err, "sku_unavailable")
		_, err = letsIn(db, bad, "by-hand", "acme", false)
		refused(t, err, "provisioning_failing")
		if says := broker.AsError(err).Message; !strings.Contains(says, "2 provisions in a row failed") || !strings.Contains(says, "sshd is away") {
			t.Errorf("the refusal says %q", says)
		}
		for _, n := range must(db.JudgedNodes(ctx, "h100", nil))(t) {
			if len(n.Reasons) != 1 || n.Reasons[0].Code != "provisioning_failing" || !strings.Contains(n.Reasons[0].Next, "hostler node activate "+bad.ID) {
				t.Errorf("it is explained by %+v", n.Reasons)
			}
		}
		history, _, _, err := db.Timeline(ctx, bad.ID, store.Window{Limit: 100})
		ok(t, err)
		if !slices.ContainsFunc(history, func(m store.Moment) bool {
			return m.What == "node.provisioning_failing" && strings.Contains(m.Detail, "sshd is away")
		}) {
			t.Errorf("the timeline says nothing: %+v", history)
		}
		if others := must(db.Unprovisionable(ctx, []string{"dc2"}))(t); len(others) != 0 {
			t.Errorf("of another site are held %+v", others)
		}

		// No run and no agent lets the node in again.
		must(db.Transition(ctx, broker.System, bad.ID, store.Change{To: broker.Active, By: broker.OwnerTurnover}))(t)
		held("after a turnover", true)
		must(db.Transition(ctx, olga, bad.ID, store.Change{From: broker.Active, To: broker.Active, By: broker.OwnerOperator, Reason: "sshd runs"}))(t)
		held("after a person's word", false)
		if a := must(asks(db, "a-7", "h100", 1))(t); a.NodeIDs[0] != bad.ID {
			t.Errorf("placed on %v", a.NodeIDs)
		}
		audited, _, _, err := db.Timeline(ctx, bad.ID, store.Window{Limit: 100})
		ok(t, err)
		if !slices.ContainsFunc(audited, func(m store.Moment) bool { return m.Actor == olga.Name && m.Detail == "sshd runs" }) {
			t.Errorf("who let the node in again is not on record: %+v", audited)
		}
	})
}
