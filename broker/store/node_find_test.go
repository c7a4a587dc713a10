package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestAnyNameFindsTheThing(t *testing.T) {
	const uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := madeByRun(t, db, "n-a", "gpu-1", "10.0.0.1", "AA:BB:CC:00:11:22", "SN-1")
		ok(t, db.SaveSeen(ctx, []store.MAASState{{NodeID: n.ID, Host: "192.0.2.7", IPs: []string{"192.0.2.7", "2001:db8::7"}}}))
		gone := must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-gone", Hostname: "gpu-0", Site: "dc2", Bootstrap: "command"}))(t)
		must(db.Transition(ctx, admin, gone.ID, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		tenanted := member(t, db, "gpu-3")
		task := must(letsIn(db, tenanted, "a-1", "acme", false))(t)
		for _, id := range []string{"GPU-" + uuid, "Disk-9"} {
			ok(t, store.Exec(ctx, db, `INSERT INTO node_devices (node_id, kind, id, serial, model, place, size, state, source, since, reason)
				VALUES ($1, 'disk', $2, '', 'm', '', 0, 'found', 'agent', 0, '')`, n.ID, id))
		}
		for word, want := range map[string][]string{
			"n-a":               {"node/n-a by id"},
			"GPU-1":             {"node/n-a by hostname"},
			"dc1/gpu-1":         {"node/n-a by hostname"},
			"dc2/gpu-1":         nil,
			"sysn-a":            {"node/n-a by maas_system_id"},
			"sn-1":              {"node/n-a by serial"},
			"aabb.cc00.1122":    {"node/n-a by pxe_mac"},
			"10.0.0.1":          {"node/n-a by ipmi_ip"},
			"192.0.2.7":         {"node/n-a by host"},
			"2001:DB8:0::7":     {"node/n-a by maas_ip"},
			"192.0.2":           nil,
			"gpu-0":             {"node/n-gone by hostname"},
			"disk-9":            {"device/Disk-9 by id"},
			uuid:                {"device/GPU-" + uuid + " by uuid"},
			"a-1":               {"allocation/a-1 by id"},
			"r-n-a":             {"run/r-n-a by id"},
			task.ID:             {"task/" + task.ID + " by id"},
			"%":                 nil,
			"' OR 1=1 --":       nil,
			"nothing-like-this": nil,
		} {
			found, more, err := db.Find(ctx, broker.ParseWord(word), nil)
			var got []string
			for _, f := range found {
				got = append(got, string(f.Kind)+"/"+f.ID+" by "+f.By)
			}
			if err != nil || more || !slices.Equal(got, want) {
				t.Errorf("%q finds %v, %v, %v; want %v", word, got, more, err, want)
			}
		}
		if found, _, err := db.Find(ctx, broker.ParseWord("sn-1"), []string{"dc2"}); err != nil || len(found) != 0 {
			t.Errorf("a token of another site finds %v, %v", found, err)
		}
	})
}

func TestWhatAWordFindsIsBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i := range store.FindAtOnce + 1 {
			id := fmt.Sprintf("n-%03d", i)
			must(db.CreateNode(ctx, admin, store.NewNode{ID: id, Hostname: "again", Bootstrap: "command"}))(t)
			must(db.Transition(ctx, admin, id, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		}
		found, more, err := db.Find(ctx, broker.ParseWord("again"), nil)
		if err != nil || len(found) != store.FindAtOnce || !more {
			t.Errorf("%d things, more %v, %v", len(found), more, err)
		}
	})
}
