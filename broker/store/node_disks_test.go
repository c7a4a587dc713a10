package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// disksOn are facts of disks, each written as "SERIAL bytes transport [system]".
func disksOn(all ...string) *taskcatalog.Facts {
	f := &taskcatalog.Facts{DisksListed: true}
	for i, line := range all {
		d := taskcatalog.DiskFacts{Name: fmt.Sprintf("nvme%dn1", i), System: strings.HasSuffix(line, " system")}
		_, _ = fmt.Sscan(line, &d.Serial, &d.SizeBytes, &d.Transport)
		f.Disks = append(f.Disks, d)
	}
	return f
}

func recorded(all []broker.Device) string {
	var words []string
	for _, d := range all {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", d.ID, d.Size, d.Transport, d.Role)))
	}
	return strings.Join(words, ", ")
}

// The disks that an erase leaves out are recorded when the node is let in, and no later report of
// the node changes the record.
func TestWhatADiskIsForIsRecordedBeforeAnyTenantAndNotByTheNodeLater(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-1", Hostname: "h1", Bootstrap: "command", TokenHash: "hash-n-1", TokenExpires: clock.Now().Add(time.Hour)}))(t)
		in := enrollment(db, "hash-n-1", "key")
		in.Report = store.NodeReport{Digest: "1", Facts: disksOn("d1 100 sata system", "d2 200 pcie", "d3 300 tcp")}
		must(db.Enroll(ctx, in))(t)
		must(db.Transition(ctx, admin, "n-1", store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		has := func(want string) {
			t.Helper()
			if got := recorded(must(db.Devices(ctx, "n-1"))(t)); got != want {
				t.Fatalf("on record are\n  %s, want\n  %s", got, want)
			}
		}
		first := "d1 100 sata system, d2 200 pcie data, d3 300 tcp data"
		has(first)
		ok(t, store.SaveReport(ctx, db, "n-1", store.NodeReport{Digest: "2", Facts: disksOn("d1 90 tcp", "d2 10 virtio system", "d3 1 pcie system")}))
		has(first)

		// A fresh system's own report is accepted, and no size becomes smaller.
		ok(t, db.RecordDisks(ctx, admin, "n-1", clock.Now().Add(time.Second), "installed anew"))
		has(first)
		ok(t, db.RecordDisks(ctx, admin, "n-1", clock.Now().Add(-time.Hour), "installed anew"))
		has("d1 100 tcp data, d2 200 virtio system, d3 300 pcie system")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "node/n-1", Action: "node.devices", Newest: true, Limit: 1}))(t)
		if len(rows) != 1 || rows[0].Reason != "installed anew" || !strings.Contains(string(rows[0].After), `"system":["d2","d3"]`) {
			t.Errorf("the audit log has %+v", rows)
		}

		// A person's statement is accepted too.
		must(db.AcceptDevices(ctx, admin, "n-1", []string{"d1"}, true, "it boots from there"))(t)
		has("d1 90 tcp system, d2 200 virtio system, d3 300 pcie system")
		_, err := db.AcceptDevices(ctx, admin, "n-1", []string{"d1"}, true, "again")
		refused(t, err, "device_not_wrong")
		must(db.AcceptDevices(ctx, admin, "n-1", []string{"d3"}, false, "made smaller on purpose"))(t)
		has("d1 90 tcp system, d2 200 virtio system, d3 1 pcie system")
	})
}

// A node whose first report comes with a tenant on the node has no record: an erase leaves no disk
// out.
func TestWhatANodeSaysFirstWithATenantOnItIsNoRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		must(letsIn(db, n, "a-1", "acme", true))(t)
		ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "2", Facts: disksOn("d1 100 sata system", "d2 200 tcp")}))
		if got, want := recorded(must(db.Devices(ctx, n.ID))(t)), "d1 100, d2 200"; strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("on record are %s, want %s", got, want)
		}
	})
}
