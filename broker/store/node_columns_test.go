package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// madeByRun makes a run, and a node that the run made, and lets the node report its chassis.
func madeByRun(t *testing.T, db *store.DB, id, hostname, bmc, mac, serial string) broker.Node {
	t.Helper()
	run := chain.Record{
		ID: "r-" + id, Kind: "node.onboarding", Site: "dc1", Status: chain.Completed, Stage: "s", Direction: chain.Forward, Attempt: 1,
		State: []byte(`{"ipmi_ip":"` + bmc + `","pxe_mac":"` + mac + `"}`), DueAt: db.Now(),
	}
	if err := db.Insert(ctx, []chain.NewRun{{Record: run}}, nil); err != nil {
		t.Fatal(err)
	}
	n := must(db.CreateNode(ctx, admin, store.NewNode{
		ID: id, Hostname: hostname, Site: "dc1", SKU: "h100", Bootstrap: "cloud-init", MAASSystemID: "sys" + id, MadeByRun: run.ID,
	}))(t)
	if err := store.SaveReport(ctx, db, n.ID, store.NodeReport{AgentVersion: "1", Digest: "d", Facts: &taskcatalog.Facts{ChassisSerial: serial}}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAListOfNodesHasWhatOtherRecordsSay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := madeByRun(t, db, "n-a", "gpu-1", "10.0.0.1", "AA:BB:CC:00:11:22", "SN-Upper1")
		other := newNode(t, db, "gpu-2")
		if err := db.SaveSeen(ctx, []store.MAASState{{NodeID: n.ID, Host: "192.0.2.7", IPs: []string{"192.0.2.7"}}}); err != nil {
			t.Fatal(err)
		}
		got := must(db.ColumnsOf(ctx, []string{n.ID, other.ID}))(t)
		want := store.NodeColumns{Serial: "SN-Upper1", Host: "192.0.2.7", BMC: "10.0.0.1", PXEMAC: "aa:bb:cc:00:11:22"}
		if got[n.ID] != want || got[other.ID] != (store.NodeColumns{}) {
			t.Errorf("%+v, want %+v", got, want)
		}

		tenanted := member(t, db, "gpu-3")
		ends(t, db, must(letsIn(db, tenanted, "a-1", "acme", false))(t), done)
		c := must(db.ColumnsOf(ctx, []string{tenanted.ID}))(t)[tenanted.ID]
		if c.AllocationID != "a-1" || c.Tenant != "acme" {
			t.Errorf("with a tenant on it: %+v", c)
		}
		page, _, err := db.ListNodes(ctx, store.NodeFilter{MachineFilter: store.MachineFilter{Tenant: "acme"}})
		if err != nil || len(page) != 1 || page[0].ID != tenanted.ID {
			t.Errorf("nodes of acme: %v, %v", page, err)
		}
		leaves(t, db, tenanted, "a-1")
		c = must(db.ColumnsOf(ctx, []string{tenanted.ID}))(t)[tenanted.ID]
		if c.AllocationID != "" || c.Tenant != "" {
			t.Errorf("after the tenant has left: %+v", c)
		}
	})
}

// A broker of an earlier release makes nodes and stores facts, and writes nothing else of machines.
func TestWhatABrokerOfAnEarlierReleaseWroteIsCaughtUpWith(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := madeByRun(t, db, "n-a", "gpu-1", "10.0.0.1", "", "SN-1")
		newNode(t, db, "gpu-2")
		raw := func(statement string, args ...any) {
			t.Helper()
			if err := store.Exec(ctx, db, statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		caughtUp := func(when string, want int, serial string) {
			t.Helper()
			done, err := db.CatchUpMachines(ctx)
			c := must(db.ColumnsOf(ctx, []string{n.ID}))(t)[n.ID]
			if err != nil || done != want || c.Serial != serial || c.BMC != "10.0.0.1" {
				t.Errorf("%s: %d nodes, %v, %+v; want %d and %s", when, done, err, c, want, serial)
			}
		}
		raw(`DELETE FROM node_machines`)
		caughtUp("the nodes are older", 2, "SN-1")
		caughtUp("nothing is behind", 0, "SN-1")
		clock.Advance(time.Hour)
		raw(`UPDATE node_facts SET facts = $1, reported_at = $2`, `{"keys":{},"chassis_serial":"SN-2"}`, clock.Now().UnixMicro())
		caughtUp("the other broker took a report", 1, "SN-2")
	})
}

func TestNodesAreFilteredByTheirMachines(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		madeByRun(t, db, "n-a", "gpu-1", "10.0.0.1", "", "SN-1")
		clock.Advance(time.Hour)
		since := db.Now()
		madeByRun(t, db, "n-b", "gpu-2", "10.0.0.2", "", "SN-2")
		for name, c := range map[string]struct {
			filter store.MachineFilter
			want   []string
		}{
			"nothing":         {store.MachineFilter{}, []string{"n-a", "n-b"}},
			"the SKU":         {store.MachineFilter{SKU: "h100"}, []string{"n-a", "n-b"}},
			"another SKU":     {store.MachineFilter{SKU: "h200"}, nil},
			"a serial number": {store.MachineFilter{Serial: "sn-2"}, []string{"n-b"}},
			"no tenant's":     {store.MachineFilter{Tenant: "acme"}, nil},
			"a change since":  {store.MachineFilter{UpdatedSince: since}, []string{"n-b"}},
		} {
			page, _, err := db.ListNodes(ctx, store.NodeFilter{MachineFilter: c.filter})
			var got []string
			for _, n := range page {
				got = append(got, n.ID)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("by %s: %v, %v; want %v", name, got, err, c.want)
			}
		}
	})
}
