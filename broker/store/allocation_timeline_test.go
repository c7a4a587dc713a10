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

// told is a timeline as text: each status, who moved the allocation there, and the code.
func told(states []store.AllocationState) string {
	var out strings.Builder
	for _, s := range states {
		fmt.Fprintf(&out, "%s %q %s, ", s.Status, s.By, s.Code)
	}
	return out.String()
}

// A tenant reads who of its own moved the allocation. The broker itself, also at the end that was asked
// for, and an admin of the platform are the platform.
func TestATimelineNamesTheTenantsOwnAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 2)
		eve := broker.Actor{Name: "eve", Role: broker.RoleProjectMember}
		moves := func(id string, who broker.Actor, c store.AllocationChange) {
			t.Helper()
			clock.Advance(time.Second)
			must(db.TransitionAllocation(ctx, who, id, c))(t)
		}
		byAdmin := store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationAdmin, Reason: "contract 17 of globex"}
		must(db.CreateAllocation(ctx, eve, store.NewAllocation{
			ID: "a-1", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-1"},
		}))(t)
		must(asks(db, "a-2", "h100", 1))(t)
		moves("a-1", broker.System, toProvisioning)
		moves("a-1", broker.System, toActive)
		_, err := db.TransitionAllocation(ctx, eve, "a-1", toActive) // stays where it is
		ok(t, err)
		_, err = db.TransitionAllocation(ctx, eve, "a-1", toProvisioning)
		refused(t, err, "transition_refused")
		moves("a-1", eve, toReleasing)
		moves("a-1", broker.System, toReleaseFailed)
		moves("a-1", broker.System, toReleasing)
		moves("a-1", broker.System, toReleaseFailed)
		moves("a-1", admin, byAdmin)
		states, earlier, err := db.AllocationTimeline(ctx, "a-1", 100)
		ok(t, err)
		const want = `requested "eve" , provisioning "" , active "" , releasing "eve" , release_failed "" cleanup_failed, releasing "" , ` +
			`release_failed "" cleanup_failed, releasing "" , `
		if got := told(states); got != want || earlier {
			t.Errorf("%s, want %s (earlier: %t)", got, want, earlier)
		}
		if states, _, err := db.AllocationTimeline(ctx, "a-2", 100); err != nil || told(states) != `requested "" , ` {
			t.Errorf("of an admin's: %s, %v", told(states), err)
		}
		if states, earlier, err := db.AllocationTimeline(ctx, "a-1", 2); err != nil || !earlier || told(states) != `release_failed "" cleanup_failed, releasing "" , ` {
			t.Errorf("the newest two: %s, %t, %v", told(states), earlier, err)
		}
		if states, _, err := db.AllocationTimeline(ctx, "a-none", 100); err != nil || len(states) > 0 {
			t.Errorf("of none: %v, %v", states, err)
		}
	})
}

// A transaction may have waited before it wrote a status. The timeline has the time of the write, as
// the allocation has it.
func TestATimelineHasTheTimesOfTheAllocation(t *testing.T) {
	for _, engine := range storetest.Engines {
		db := storetest.Open(t, engine, ticking())
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), waysTo[broker.AllocationReleaseFailed]...)
		states, _, err := db.AllocationTimeline(ctx, "a-1", 100)
		ok(t, err)
		for i, want := range []time.Time{a.RequestedAt, a.ProvisioningAt, a.ActiveAt, a.ReleasingAt, a.ReleaseFailedAt} {
			if len(states) != 5 || !states[i].At.Equal(want.Truncate(time.Microsecond)) {
				t.Fatalf("state %d of %+v, want %v", i, states, want)
			}
		}
	}
}
