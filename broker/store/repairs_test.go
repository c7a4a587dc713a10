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

func repaired(id, node, old, replacement string, at time.Time) broker.Repair {
	return broker.Repair{
		ID: id, NodeID: node, Source: broker.RepairByHand, Category: "gpu", Action: "replaced", Part: "gpu", Old: broker.RepairPart{Serial: old},
		New: broker.RepairPart{Serial: replacement}, OpenedAt: at,
	}
}

// A part is found by its serial number in all machines in which it was. What is on record already is left as it is, and of a list with a bad
// row nothing is recorded.
func TestAPartIsFoundInAllItsMachines(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		one, two := newMember(t, db, "one"), newMember(t, db, "two")
		at := db.Now().Add(-time.Hour)
		list := []broker.Repair{repaired("rep-1", one.ID, "s-1", "s-2", at), repaired("rep-2", two.ID, "s-3", "s-1", at)}
		if made := must(db.RecordRepairs(ctx, admin, list))(t); len(made) != 2 || made[0].Hostname != "one" {
			t.Errorf("recorded are %+v", made)
		}
		list[0].ID, list[1].ID = "rep-3", "rep-4"
		if made := must(db.RecordRepairs(ctx, admin, list))(t); len(made) != 0 {
			t.Errorf("recorded again are %+v", made)
		}
		bad := repaired("rep-6", one.ID, "s-8", "s-8", at)
		_, err := db.RecordRepairs(ctx, admin, []broker.Repair{repaired("rep-5", one.ID, "s-1", "s-9", at.Add(1000)), bad})
		refused(t, err, "repair_invalid")
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, one.ID))
		found, _ := mustPage(db.Repairs(ctx, store.RepairFilter{Serial: "s-1"}))(t)
		if len(found) != 2 || found[0].NodeID != one.ID || found[1].NodeID != two.ID {
			t.Errorf("found are %+v", found)
		}
	})
}

// Three repairs of a kind of part within 90 days ask for another machine, until it is there.
func TestThreeRepairsAskForAnotherMachine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one, two := newMember(t, db, "one"), newMember(t, db, "two")
		due := func() int { return len(must(db.ReplacementsDue(ctx, nil, 10))(t)) }
		begun := db.Now()
		for i := range 3 {
			if due() != 0 {
				t.Errorf("it is due after %d repairs", i)
			}
			r := repaired(fmt.Sprint("rep-", i), one.ID, fmt.Sprint("s-", i), fmt.Sprint("s-", i+1), begun.Add(time.Duration(i)*time.Second))
			clock.Advance(time.Minute)
			must(db.RecordRepairs(ctx, admin, []broker.Repair{r}))(t)
		}
		other := repaired("rep-a", two.ID, "t-1", "", begun)
		for i, action := range []broker.RepairAction{"added", "returned", "removed", "repaired"} {
			other.ID, other.Action = fmt.Sprint("rep-a", i), action
			must(db.RecordRepairs(ctx, admin, []broker.Repair{other}))(t)
		}
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.ReplacementDueEvent}})
		if ok(t, err); due() != 1 {
			t.Errorf("it is not due: %+v", told)
		}
		h := store.HostReplacement{OldNodeID: one.ID, NewNodeID: two.ID, Reason: "three GPUs"}
		must(db.ReplaceHost(ctx, admin, h))(t)
		must(db.ReplaceHost(ctx, admin, h))(t)
		if due() != 0 {
			t.Error("it is due although the machine was replaced")
		}
		_, err = db.ReplaceHost(ctx, admin, store.HostReplacement{OldNodeID: two.ID, NewNodeID: one.ID})
		refused(t, err, "host_replaced")
		_, err = db.ReplaceHost(ctx, admin, store.HostReplacement{OldNodeID: one.ID, NewNodeID: one.ID})
		refused(t, err, "repair_invalid")
		if links := must(db.HostLinks(ctx, two.ID))(t); len(links) != 1 || links[0].OldNodeID != one.ID {
			t.Errorf("linked are %+v", links)
		}
		ok(t, store.Exec(ctx, db, `DELETE FROM host_replacements`))
		clock.Advance(91 * 24 * time.Hour)
		if due() != 0 {
			t.Error("repairs of long ago count")
		}
	})
}

// What a person accepts or attests is a repair, and belongs to the maintenance that is open. With one part for one nobody has to
// say which replaced which.
func TestWhatIsAcceptedIsARepair(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := lacks(t, db, "gpu-1") // d2, d3 and g2 are missing, and d9 is unexpected
		m := must(maintains(db, "mnt-1", n.ID, 0, time.Hour))(t)
		must(db.AcceptDevices(ctx, admin, n.ID, []string{"d2", "d9"}, false, "RMA 7"))(t)
		must(attest(db, n, "g2"))(t)
		found, _ := mustPage(db.Repairs(ctx, store.RepairFilter{NodeID: n.ID}))(t)
		if len(found) != 2 {
			t.Fatalf("on record are %+v", found)
		}
		if slices.SortFunc(found, func(a, b broker.Repair) int { return strings.Compare(a.Part, b.Part) }); found[1].Part != "gpu" {
			t.Fatalf("on record are %+v", found)
		}
		disk, gpu := found[0], found[1]
		if disk.Action != "replaced" || disk.Old.Serial != "d2" || disk.New.Serial != "d9" || disk.MaintenanceID != m.ID || disk.Ticket != "OPS-1" ||
			disk.Source != broker.RepairByDevice || disk.Note != "RMA 7" {
			t.Errorf("the disk is %+v", disk)
		}
		if gpu.Action != "removed" || gpu.Old.Serial != "g2" || gpu.New.Serial != "" || gpu.MaintenanceID != m.ID {
			t.Errorf("the GPU is %+v", gpu)
		}
		must(db.AcceptDevices(ctx, admin, n.ID, []string{"d3"}, false, "gone"))(t)
		if found, _ := mustPage(db.Repairs(ctx, store.RepairFilter{Serial: "d3"}))(t); len(found) != 1 || found[0].Action != "removed" {
			t.Errorf("of d3 are %+v", found)
		}
	})
}
