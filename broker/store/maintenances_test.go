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

// maintains makes a maintenance of a node; in 0: it is open at once.
func maintains(db *store.DB, id, node string, in, takes time.Duration) (broker.Maintenance, error) {
	m := broker.Maintenance{ID: id, NodeID: node, Category: "power", Tenant: broker.TenantStays, Ticket: "OPS-1", Reason: "feed", Planned: in != 0}
	if in != 0 {
		m.From = db.Now().Add(in)
	}
	if takes != 0 {
		m.Until = db.Now().Add(in + takes)
	}
	return db.CreateMaintenance(ctx, admin, m)
}

// steps takes what is due, as the watch does, and returns it.
func steps(t *testing.T, db *store.DB) (out string) {
	t.Helper()
	for _, id := range must(db.DueMaintenances(ctx, 10))(t) {
		out += fmt.Sprintf("%s %s, ", id, must(db.StepMaintenance(ctx, broker.System, id))(t))
	}
	return out
}

func stands(t *testing.T, db *store.DB, id string, want broker.MaintenanceStatus) broker.Maintenance {
	t.Helper()
	m := must(db.Maintenance(ctx, id))(t)
	if m.Status != want {
		t.Errorf("maintenance %s is %s, want %s (%s)", id, m.Status, want, m.Because)
	}
	return m
}

// While a maintenance is open, no placement takes the node, and its availability says so.
func TestANodeInMaintenanceIsGivenToNobody(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		must(maintains(db, "mnt-1", n.ID, 0, time.Hour))(t)
		_, err := asks(db, "a-1", "h100", 1)
		refused(t, err, "sku_unavailable")
		must(db.SweepAvailability(ctx))(t)
		if a := must(db.Availability(ctx, []string{n.ID}))(t)[n.ID]; a.Word != broker.InMaintenance || fmt.Sprint(a.Codes) != "[maintenance]" {
			t.Errorf("it is %s because of %v", a.Word, a.Codes)
		}
		if judged := must(db.JudgedNodes(ctx, "h100", nil))(t); len(judged[0].Reasons) != 1 || judged[0].Reasons[0].Code != "maintenance" {
			t.Errorf("an explanation has %+v", judged[0].Reasons)
		}
		if n := must(db.Node(ctx, n.ID))(t); n.Status != broker.Active {
			t.Errorf("its status is %s", n.Status)
		}
		must(db.CloseMaintenance(ctx, admin, "mnt-1", store.MaintenanceEnd{Reason: "done"}))(t)
		must(db.CloseMaintenance(ctx, admin, "mnt-1", store.MaintenanceEnd{Reason: "again"}))(t)
		if m := stands(t, db, "mnt-1", broker.MaintenanceClosed); m.Because != "done" || audited(t, db, "maintenance.close", "") != 1 {
			t.Errorf("closed again, it is %+v", m)
		}
		must(asks(db, "a-2", "h100", 1))(t)
	})
}

// A node is in one maintenance at a time, and no plan overlaps another one in silence.
func TestMaintenancesOfANodeDoNotOverlap(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		other := newMember(t, db, "two")
		must(maintains(db, "mnt-1", n.ID, 10*time.Hour, time.Hour))(t)
		must(maintains(db, "mnt-2", other.ID, 10*time.Hour, time.Hour))(t)
		must(maintains(db, "mnt-3", n.ID, 11*time.Hour, time.Hour))(t) // right after it
		for name, c := range map[string][2]time.Duration{
			"within":           {10*time.Hour + time.Minute, time.Minute},
			"around":           {9 * time.Hour, 9 * time.Hour},
			"into it":          {9 * time.Hour, time.Hour + time.Microsecond},
			"now, into it":     {0, 10*time.Hour + time.Microsecond},
			"now, without end": {0, 0},
		} {
			_, err := maintains(db, "mnt-no", n.ID, c[0], c[1])
			if broker.AsError(err).Code != "maintenance_overlaps" {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(maintains(db, "mnt-4", n.ID, 0, time.Hour))(t)
		steps(t, db)                 // the tenants are told that they begin soon
		clock.Advance(2 * time.Hour) // it is overdue
		_, err := maintains(db, "mnt-no", n.ID, 0, time.Hour)
		refused(t, err, "maintenance_overlaps")
		if got := steps(t, db); got != "mnt-4 overdue, " {
			t.Errorf("due are %s", got)
		}
		if got := steps(t, db); got != "" {
			t.Errorf("due again are %s", got)
		}
		// A plan whose time comes meanwhile waits, says so, and begins when the node is free.
		clock.Advance(8 * time.Hour)
		steps(t, db)
		if m := stands(t, db, "mnt-1", broker.MaintenancePlanned); m.Because != "it waits until maintenance mnt-4 is closed" {
			t.Errorf("it waits because %q", m.Because)
		}
		must(db.CloseMaintenance(ctx, admin, "mnt-4", store.MaintenanceEnd{Reason: "done", Override: true}))(t)
		steps(t, db)
		if m := stands(t, db, "mnt-1", broker.MaintenanceOpen); m.Because != "" {
			t.Errorf("it is open because %q", m.Because)
		}
	})
}

// What is due follows from the dates, however long no broker ran.
func TestPlannedMaintenancesGoByDate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one, two, three := newMember(t, db, "one"), newMember(t, db, "two"), newMember(t, db, "three")
		must(maintains(db, "mnt-1", one.ID, 30*time.Hour, 30*time.Hour))(t)
		must(maintains(db, "mnt-2", two.ID, 30*time.Hour, time.Hour))(t)
		must(maintains(db, "mnt-3", three.ID, 90*time.Hour, time.Hour))(t)
		if got := steps(t, db); got != "" {
			t.Errorf("due are %s", got)
		}
		clock.Advance(7 * time.Hour)
		if got := steps(t, db); got != "mnt-1 reminds, mnt-2 reminds, " {
			t.Errorf("due are %s", got)
		}
		clock.Advance(33 * time.Hour) // no broker runs
		if got := steps(t, db); got != "mnt-1 begins, mnt-2 misses, " {
			t.Errorf("due are %s", got)
		}
		if m := stands(t, db, "mnt-2", broker.MaintenanceMissed); m.Because == "" {
			t.Error("it does not say why")
		}
		// Its end has come, and its agent is not heard: it stays open and says so, once, also where a person has found the same
		// before the end.
		must(db.CloseMaintenance(ctx, admin, "mnt-1", store.MaintenanceEnd{Reason: "done"}))(t)
		clock.Advance(20 * time.Hour)
		steps(t, db)
		if got := steps(t, db); got != "" {
			t.Errorf("tried again at once are %s", got)
		}
		clock.Advance(broker.MaintenanceRetry)
		if got := steps(t, db); got != "mnt-1 ends, " {
			t.Errorf("tried again are %s", got)
		}
		clock.Advance(broker.MaintenanceRetry)
		if m := stands(t, db, "mnt-1", broker.MaintenanceOpen); !strings.Contains(m.Because, "check parts failed: node_silent") || m.OverdueAt.IsZero() {
			t.Errorf("it is open because %q", m.Because)
		}
		if n := audited(t, db, "maintenance.check", ""); n != 1 {
			t.Errorf("%d checks are on record", n)
		}
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = $1, status = 'active'`, db.Now().UnixMicro()))
		steps(t, db)
		stands(t, db, "mnt-1", broker.MaintenanceClosed)
		must(db.CloseMaintenance(ctx, admin, "mnt-3", store.MaintenanceEnd{Reason: "no longer needed"}))(t)
		stands(t, db, "mnt-3", broker.MaintenanceCancelled)
		clock.Advance(100 * time.Hour)
		if got := steps(t, db); got != "" {
			t.Errorf("due are %s", got)
		}
	})
}

// Maintenances that cannot be closed, or that wait, keep no other one back, however many they are.
func TestAMaintenanceThatCannotMoveKeepsNoOtherBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one, two, three := newMember(t, db, "one"), newMember(t, db, "two"), newMember(t, db, "three")
		must(maintains(db, "mnt-1", one.ID, time.Hour, time.Hour))(t)
		must(maintains(db, "mnt-2", two.ID, 10*time.Hour, 20*time.Hour))(t)
		must(maintains(db, "mnt-3", two.ID, 0, time.Hour))(t)
		must(maintains(db, "mnt-4", three.ID, 20*time.Hour, 10*time.Hour))(t)
		steps(t, db)
		clock.Advance(time.Hour)
		steps(t, db)
		clock.Advance(20 * time.Hour) // mnt-1 cannot end, and mnt-2 waits for mnt-3
		got := ""
		for range 6 {
			for _, id := range must(db.DueMaintenances(ctx, 1))(t) {
				must(db.StepMaintenance(ctx, broker.System, id))(t)
				got += id + " "
			}
		}
		stands(t, db, "mnt-1", broker.MaintenanceOpen)
		stands(t, db, "mnt-2", broker.MaintenancePlanned)
		if stands(t, db, "mnt-4", broker.MaintenanceOpen); got != "mnt-1 mnt-2 mnt-4 " {
			t.Errorf("looked at were %s", got)
		}
	})
}

// A maintenance of a node that is deleted ends at its planned end: nothing is left to check.
func TestAMaintenanceEndsWithADeletedNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		must(maintains(db, "mnt-1", n.ID, time.Hour, time.Hour))(t)
		clock.Advance(time.Hour)
		steps(t, db)
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, n.ID))
		clock.Advance(time.Hour)
		steps(t, db)
		if m := stands(t, db, "mnt-1", broker.MaintenanceClosed); m.Because != "its node was deleted" {
			t.Errorf("it was closed because %q", m.Because)
		}
	})
}

func TestABadMaintenanceChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "one")
		now := db.Now()
		for name, m := range map[string]broker.Maintenance{
			"a category":          {Category: "weather", Tenant: broker.TenantStays},
			"a tenant":            {Category: "gpu", Tenant: "sleeps"},
			"an end before now":   {Category: "gpu", Tenant: broker.TenantStays, Until: now.Add(-time.Hour)},
			"a plan without end":  {Category: "gpu", Tenant: broker.TenantStays, Planned: true, From: now.Add(time.Hour)},
			"an end before from":  {Category: "gpu", Tenant: broker.TenantStays, Planned: true, From: now.Add(2 * time.Hour), Until: now.Add(time.Hour)},
			"more than a year on": {Category: "gpu", Tenant: broker.TenantStays, Until: now.Add(400 * 24 * time.Hour)},
		} {
			m.ID, m.NodeID = "mnt-no", n.ID
			if _, err := db.CreateMaintenance(ctx, admin, m); broker.AsError(err).Code != "maintenance_invalid" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, _ := mustPage(db.Maintenances(ctx, store.MaintenanceFilter{Ended: true}))(t); len(all) != 0 {
			t.Errorf("there are %+v", all)
		}
		must(maintains(db, "mnt-1", n.ID, 0, 0))(t)
		for i := range broker.MaxMaintenanceNotes {
			ok(t, db.NoteMaintenance(ctx, admin, "mnt-1", fmt.Sprint("note ", i)))
		}
		refused(t, db.NoteMaintenance(ctx, admin, "mnt-1", "one more"), "maintenance_notes")
		refused(t, db.NoteMaintenance(ctx, admin, "mnt-9", "none"), "maintenance_not_found")
		if notes := must(db.MaintenanceNotes(ctx, "mnt-1"))(t); len(notes) != broker.MaxMaintenanceNotes || notes[1].Text != "note 1" {
			t.Errorf("there are %d notes", len(notes))
		}
	})
}
