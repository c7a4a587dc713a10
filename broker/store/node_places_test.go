package store_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestPlacesOfNodesChangeTogether(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		place := broker.NodePlace{Zone: "az1", Room: "hall", Row: "r1", Rack: "c07", Unit: 60, Domain: "feed-a"}
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-a", Hostname: "a", Bootstrap: "command", Place: place}))(t)
		newNode(t, db, "b")
		gone := newNode(t, db, "c")
		must(db.Transition(ctx, admin, gone.ID, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		if n := must(db.Node(ctx, "n-a"))(t); n.Place != place {
			t.Errorf("a new node stands in %+v", n.Place)
		}
		rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "node.create", Subject: "node/n-a"}))(t)
		const stands = `"place":{"zone":"az1","room":"hall","row":"r1","rack":"c07","unit":60,"domain":"feed-a"}`
		if len(rows) != 1 || !strings.Contains(string(rows[0].After), stands) {
			t.Errorf("its audit rows are %+v, want one with %s", rows, stands)
		}
		rack, wrong := "c08", "C08"
		for code, changes := range map[string]map[string]broker.NodePlaceChange{
			"node_not_found": {"n-a": {Rack: &rack}, "n-c": {Rack: &rack}},
			"place_invalid":  {"n-a": {Rack: &rack}, "n-b": {Rack: &wrong}},
		} {
			_, err := db.ChangePlaces(ctx, admin, changes)
			refused(t, err, code)
		}
		if n := must(db.Node(ctx, "n-a"))(t); n.Place != place {
			t.Errorf("after refusals it stands in %+v", n.Place)
		}
		changed := must(db.ChangePlaces(ctx, admin, map[string]broker.NodePlaceChange{"n-a": {Zone: &place.Zone}, "n-b": {Rack: &rack}}))(t)
		if len(changed) != 1 || changed[0].ID != "n-b" || changed[0].Place.Rack != "c08" {
			t.Errorf("changed are %+v", changed)
		}
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.PlaceEvent}})
		if err != nil || len(told) > 1 {
			t.Errorf("%d events, %v", len(told), err)
		}
	})
}
