package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A page of a list with labels looks at so many rows and no more. It may come back short or empty, and its
// cursor leads on, so that the pages together have everything.
func TestAPageWithLabelsLooksAtSoManyRows(t *testing.T) {
	const many = 2*store.LabelledAtOnce + 100
	rare := map[string]string{"team": "vision"}
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		must(db.CreateAllocation(ctx, admin, store.NewAllocation{
			ID: "b-oldest", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-1"}, Labels: rare,
		}))(t)
		must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-last", Hostname: "last", Site: "dc1", Bootstrap: "command", Labels: rare}))(t)
		count := fmt.Sprintf(`WITH RECURSIVE count(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM count WHERE i < %d)`, many)
		ok(t, store.Exec(ctx, db, `INSERT INTO nodes (id, hostname, site, sku, status, bootstrap, maas_system_id, made_by_run, labels, created_at, updated_at) `+count+`
			SELECT 'n-' || i, 'gpu-' || i, 'dc1', '', 'bootstrap_issued', 'command', '', '', '{}', 0, 0 FROM count`))
		ok(t, store.Exec(ctx, db, `INSERT INTO tenant_allocations (id, project_id, status, sku, nodes, gpus, site, image, key_ids, ends_at,
				labels, code, certificate_ids, requested_at, provisioning_at, active_at, releasing_at, released_at, failed_at, release_failed_at) `+count+`
			SELECT 'c-' || i, project_id, 'failed', sku, nodes, gpus, site, image, key_ids, ends_at,
				'{}', code, certificate_ids, requested_at + i, 0, 0, 0, 0, 0, 0 FROM tenant_allocations, count WHERE id = 'b-oldest'`))
		texts := store.Texts(db)
		var sizes []int
		for after := ""; after != "" || sizes == nil; {
			page, next, err := db.ListNodes(ctx, store.NodeFilter{Labels: rare, Limit: 10, After: after})
			ok(t, err)
			if sizes, after = append(sizes, len(page)), next; len(page) > 0 && page[0].ID != "n-last" {
				t.Errorf("the page has %s", page[0].ID)
			}
		}
		if !slices.Equal(sizes, []int{0, 0, 1}) {
			t.Errorf("nodes are listed in pages of %v", sizes)
		}
		sizes = nil
		for after := ""; after != "" || sizes == nil; {
			page, next, err := db.Allocations(ctx, store.AllocationFilter{ProjectID: "p-1", Labels: rare, Limit: 10, After: after})
			ok(t, err)
			if sizes, after = append(sizes, len(page)), next; len(page) > 0 && page[0].ID != "b-oldest" {
				t.Errorf("the page has %s", page[0].ID)
			}
		}
		if !slices.Equal(sizes, []int{0, 0, 1}) {
			t.Errorf("allocations are listed in pages of %v", sizes)
		}
		lists := 0
		for _, text := range texts() {
			if strings.Contains(text, "ORDER BY id") || strings.Contains(text, "ORDER BY requested_at DESC") {
				if lists++; !strings.Contains(text, " LIMIT $") {
					t.Errorf("all rows are read by %s", text)
				}
			}
		}
		if lists < 2 {
			t.Errorf("only %d lists were looked at", lists)
		}
	})
}
