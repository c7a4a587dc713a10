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

// parts are facts with these disks and GPUs, by serial and UUID.
func parts(disks, gpus string) *taskcatalog.Facts {
	f := &taskcatalog.Facts{DisksListed: true}
	for i, s := range strings.Fields(disks) {
		f.Disks = append(f.Disks, taskcatalog.DiskFacts{Name: fmt.Sprintf("nvme%dn1", i), Serial: s})
	}
	for i, u := range strings.Fields(gpus) {
		f.GPUs = append(f.GPUs, taskcatalog.GPUFacts{Vendor: "nvidia", UUID: u, PCIAddress: fmt.Sprintf("0000:%02x:00.0", i)})
	}
	return f
}

func stand(all []broker.Device) string {
	var words []string
	for _, d := range all {
		words = append(words, d.ID+":"+string(d.State))
	}
	return strings.Join(words, " ")
}

func TestTheDevicesOfANodeAreThoseThatMAASAndItsFirstEnrolmentTold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := onboarded("n-1", "r-1", "abc")
		n.Disks = []broker.Device{{ID: "d1", Place: "nvme0n1"}, {ID: "d2", Place: "nvme1n1"}, {ID: "d2"}, {}}
		has := func(want string) {
			t.Helper()
			if got := stand(must(db.Devices(ctx, "n-1"))(t)); got != want {
				t.Fatalf("it has\n  %s, want\n  %s", got, want)
			}
		}
		for range 2 { // the answer was lost
			must(db.OnboardNode(ctx, admin, n))(t)
		}
		has("d1:expected d2:expected")
		n.Disks = []broker.Device{{ID: "d1", Place: "nvme0n1"}, {ID: "d3", Place: "nvme1n1"}}
		must(db.OnboardNode(ctx, admin, n))(t) // mended, and commissioned again
		has("d1:expected d3:expected")

		ok(t, db.IssueToken(ctx, admin, "n-1", "hash-1", clock.Now().Add(time.Hour), "run"))
		in := enrollment(db, "hash-1", "key")
		in.MAASSystemID = "abc"
		in.Report = store.NodeReport{Digest: "1", Facts: parts("d1 d4", "g1 g2")}
		must(db.Enroll(ctx, in))(t)
		has("d1:found d3:missing d4:unexpected")
		must(db.OnboardNode(ctx, admin, n))(t) // a run that continues changes nothing
		has("d1:found d3:missing d4:unexpected")
		_, _, err := db.Activate(ctx, admin, "n-1", "onboarded", func(_ broker.Node, f taskcatalog.Facts, known bool, parts []broker.Device) (string, string) {
			if missing, _ := broker.WrongDevices(parts); !known || len(f.GPUs) != 2 || len(missing) != 1 {
				t.Errorf("it is judged by %+v, known %v, and %s", f, known, stand(parts))
			}
			return "another machine", ""
		})
		if err != nil { // its baseline is missing first
			t.Fatal(err)
		}
		ok(t, db.SaveBaseline(ctx, admin, "n-1", "sha256:b", []byte("{}"), "test"))
		_, _, err = db.Activate(ctx, admin, "n-1", "onboarded", func(broker.Node, taskcatalog.Facts, bool, []broker.Device) (string, string) {
			return "another machine", ""
		})
		refused(t, err, "hardware_mismatch")
		if active, _, err := db.Activate(ctx, admin, "n-1", "onboarded", nil); !active || err != nil {
			t.Fatal(err)
		}
		has("d1:found d3:missing d4:unexpected g1:found g2:found")

		report := 1
		reports := func(f *taskcatalog.Facts) {
			t.Helper()
			report++
			ok(t, store.SaveReport(ctx, db, "n-1", store.NodeReport{Digest: fmt.Sprint(report), Facts: f}))
		}
		reports(parts("d1 d3", "g1 g3"))
		has("d1:found d3:found g1:found g2:missing g3:unexpected")
		wrong := must(db.WrongDevices(ctx, []string{"dc1"}, 10))(t)
		if len(wrong) != 1 || wrong[0].NodeID != "n-1" || wrong[0].Missing != 1 || wrong[0].Unexpected != 1 || len(must(db.WrongDevices(ctx, []string{"dc2"}, 10))(t)) != 0 {
			t.Errorf("wrong is %+v", wrong)
		}
		reports(nil)                                                                                                                                  // it did not look
		reports(&taskcatalog.Facts{DisksListed: true, Disks: []taskcatalog.DiskFacts{{Serial: "d1"}, {Serial: "d3"}}, GPUs: parts("", "g1 g3").GPUs}) // names move
		old := parts("", "g1 g3")
		old.Disks, old.DisksListed = nil, false // an agent that does not look for disks
		reports(old)

		for code, names := range map[string][]string{"device_unknown": {"g2", "zz"}, "device_not_wrong": {"g2", "g1"}} {
			_, err := db.AcceptDevices(ctx, admin, "n-1", names, false, "RMA 7")
			refused(t, err, code)
		}
		must(db.AcceptDevices(ctx, admin, "n-1", []string{"g2", "g3"}, false, "RMA 7"))(t)
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "node/n-1", Action: "node.devices", Newest: true, Limit: 1}))(t)
		if len(rows) != 1 || rows[0].Actor != admin.Name || rows[0].Reason != "RMA 7" || !strings.Contains(string(rows[0].After), `"removed":["gpu g2"]`) {
			t.Errorf("the audit log has %+v", rows)
		}
		if len(must(db.WrongDevices(ctx, nil, 10))(t)) != 0 {
			t.Error("what was accepted is still wrong")
		}
		reports(parts("d1 d3", "g1 g2 g3")) // the removed part is back
		if got := stand(must(db.Devices(ctx, "n-1"))(t)); !strings.Contains(got, "g2:unexpected") || !strings.Contains(got, "g3:found") {
			t.Errorf("it has %s", got)
		}
		must(db.Transition(ctx, admin, "n-1", store.Change{To: broker.Quarantined, By: broker.OwnerOperator}))(t)
	})
}

func TestANodeMadeByHandExpectsWhatItCameWith(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-1", Hostname: "h1", Bootstrap: "command", TokenHash: "hash-n-1", TokenExpires: clock.Now().Add(time.Hour)}))(t)
		in := enrollment(db, "hash-n-1", "key")
		in.Report = store.NodeReport{Digest: "1", Facts: parts("d1", "g1")}
		must(db.Enroll(ctx, in))(t)
		if got := stand(must(db.Devices(ctx, "n-1"))(t)); got != "" {
			t.Errorf("before it is let in it shall have %s", got)
		}
		must(db.Transition(ctx, admin, "n-1", store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		if got := stand(must(db.Devices(ctx, "n-1"))(t)); got != "d1:found g1:found" {
			t.Errorf("let in, it shall have %s", got)
		}
		ok(t, store.SaveReport(ctx, db, "n-1", store.NodeReport{Digest: "2", Facts: parts("", "")}))
		if got := stand(must(db.Devices(ctx, "n-1"))(t)); got != "d1:missing g1:missing" {
			t.Errorf("without them it has %s", got)
		}
	})
}

// Boards with two GPUs report the same serial for both GPUs.
func TestOfTwoPartsOfOneSerialNoneIsAcceptedByIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "h1")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		report := 1
		reports := func(uuids ...string) {
			t.Helper()
			f := parts("", strings.Join(uuids, " "))
			for i := range f.GPUs {
				f.GPUs[i].Serial = "board"
			}
			report++
			ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: fmt.Sprint(report), Facts: f}))
		}
		reports("g1", "g2", "g3")
		reports("g1")
		_, err := db.AcceptDevices(ctx, admin, n.ID, []string{"g2", "board"}, false, "RMA 7")
		refused(t, err, "device_ambiguous")
		if got := stand(must(db.Devices(ctx, n.ID))(t)); got != "g1:found g2:missing g3:missing" {
			t.Errorf("it has %s", got)
		}
		if got := stand(must(db.AcceptDevices(ctx, admin, n.ID, []string{"g2"}, false, "RMA 7"))(t)); got != "g1:found g2:removed g3:missing" {
			t.Errorf("by its identity: %s", got)
		}
	})
}
