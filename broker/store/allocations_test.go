package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// offered makes a SKU that is offered as whole nodes, everywhere, with a large quota for each
// project.
func offered(t testing.TB, db *store.DB, id string) {
	t.Helper()
	s := broker.NewSKU()
	s.ID = id
	offers(t, db, s)
}

// offers makes a SKU, with a large quota for each project.
func offers(t testing.TB, db *store.DB, s broker.SKU) {
	t.Helper()
	must(db.CreateSKU(ctx, admin, s))(t)
	if _, err := db.Organisation(ctx, broker.Place{}, "org-1"); err != nil {
		must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-1", Name: "acme"}))(t)
		for _, id := range projects {
			must(db.CreateProject(ctx, admin, broker.Project{ID: id, OrganisationID: "org-1", Name: id}))(t)
		}
	}
	for _, id := range projects {
		must(db.SetQuota(ctx, admin, broker.Quota{ProjectID: id, SKU: s.ID, Nodes: 10_000, GPUs: 10_000}, ""))(t)
	}
}

var projects = []string{"p-1", "p-2", "p-3", "p-4", "p-5", "p-6", "p-7", "p-8"}

// stock makes active nodes of a SKU at a site.
func stock(t testing.TB, db *store.DB, sku, site string, count int) (nodes []broker.Node) {
	t.Helper()
	for i := range count {
		name := fmt.Sprintf("%s-%s-%03d", sku, site, i)
		must(db.CreateNode(ctx, admin, store.NewNode{
			ID: "n-" + name, Hostname: name, Site: site, SKU: sku, Bootstrap: "command", TokenHash: "hash-" + name, TokenExpires: db.Now().Add(time.Hour),
		}))(t)
		e := enroll(t, db, "hash-"+name, "key-"+name)
		must(db.FirstContact(ctx, "n-"+name, 1, e.Cert.Serial))(t)
		nodes = append(nodes, must(db.Transition(ctx, admin, "n-"+name, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t))
	}
	return nodes
}

// asks requests whole nodes of a SKU, anywhere.
func asks(db *store.DB, id, sku string, nodes int) (broker.Allocation, error) {
	return db.CreateAllocation(ctx, admin, store.NewAllocation{
		ID: id, ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: sku, Nodes: nodes}, KeyIDs: []string{"k-1"},
	})
}

// waysTo lead a requested allocation to each status.
var waysTo = map[broker.AllocationStatus][]store.AllocationChange{
	broker.AllocationRequested:     {},
	broker.AllocationProvisioning:  {toProvisioning},
	broker.AllocationActive:        {toProvisioning, toActive},
	broker.AllocationFailed:        {toProvisioning, {To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "ssh_unreachable"}},
	broker.AllocationReleasing:     {toProvisioning, toActive, toReleasing},
	broker.AllocationReleaseFailed: {toProvisioning, toActive, toReleasing, toReleaseFailed},
	broker.AllocationReleased:      {toProvisioning, toActive, toReleasing, {To: broker.AllocationReleased, By: broker.AllocationWorker}},
}

var (
	toProvisioning  = store.AllocationChange{To: broker.AllocationProvisioning, By: broker.AllocationWorker}
	toActive        = store.AllocationChange{To: broker.AllocationActive, By: broker.AllocationWorker}
	toReleasing     = store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser}
	toReleaseFailed = store.AllocationChange{To: broker.AllocationReleaseFailed, By: broker.AllocationWorker, Code: "cleanup_failed"}
)

// walk leads an allocation through changes. A release gets its certificates.
func walk(t testing.TB, db *store.DB, a broker.Allocation, changes ...store.AllocationChange) broker.Allocation {
	t.Helper()
	for _, c := range changes {
		if c.To == broker.AllocationReleased {
			c.CertificateIDs = certify(t, db, a)
		}
		a = must(db.TransitionAllocation(ctx, admin, a.ID, c))(t)
	}
	return a
}

// certify issues a certificate for each node of an allocation.
func certify(t testing.TB, db *store.DB, a broker.Allocation) (ids []string) {
	t.Helper()
	for _, id := range a.NodeIDs {
		certified(t, db, must(db.Node(ctx, id))(t), "c-"+a.ID+id, "r-1", true)
		ids = append(ids, "c-"+a.ID+id)
	}
	return ids
}

// ticking is a clock that goes on by a second with each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(10 * time.Millisecond)
		return now
	}
}

// Each pair of statuses, with each owner: what the table has is done, announced once and audited
// with its owner; all else is refused, audited, and changes nothing.
func TestEveryTransitionOfAnAllocationIsMadeByItsOwnerAlone(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			db := storetest.Open(t, engine, ticking())
			offered(t, db, "h100")
			stock(t, db, "h100", "dc1", 20)
			made := 0
			fresh := func(at broker.AllocationStatus) broker.Allocation {
				made++
				a := must(asks(db, fmt.Sprintf("a-%02d", made), "h100", 1))(t)
				return walk(t, db, a, waysTo[at]...)
			}
			for _, from := range broker.AllocationStatuses {
				a := fresh(from)
				if a.Status != from {
					t.Fatalf("the allocation is %s, want %s", a.Status, from)
				}
				a = must(db.Allocation(ctx, a.ID))(t)
				for _, to := range broker.AllocationStatuses {
					for _, by := range broker.AllocationOwners {
						if to == from {
							continue
						}
						c := store.AllocationChange{To: to, By: by, Code: "broken", CertificateIDs: []string{"c-1"}}
						judged := a
						judged.Code, judged.CertificateIDs = c.Code, c.CertificateIDs
						if broker.TransitionAllocation(judged, to, by) == nil {
							madeByOwner(t, db, fresh(from), c)
							continue
						}
						refusedTransition(t, db, a, c)
					}
				}
			}
			if made != len(broker.AllocationStatuses)+10 {
				t.Errorf("%d allocations were made: the table has other transitions than the ten of it", made)
			}
		})
	}
}

func madeByOwner(t *testing.T, db *store.DB, a broker.Allocation, c store.AllocationChange) {
	t.Helper()
	if c.To == broker.AllocationReleased {
		c.CertificateIDs = certify(t, db, a)
	}
	events := len(must(store.OutboxTypes(ctx, db))(t))
	got := must(db.TransitionAllocation(ctx, admin, a.ID, c))(t)
	if kept := must(db.Allocation(ctx, a.ID))(t); got.Status != c.To || asJSON(kept) != asJSON(got) {
		t.Errorf("%s to %s by %s: it is %s, and kept is %s", a.Status, c.To, c.By, asJSON(got), asJSON(kept))
	}
	if failed := c.To == broker.AllocationFailed || c.To == broker.AllocationReleaseFailed; failed != (got.Code != "") {
		t.Errorf("%s to %s: the code is %q", a.Status, c.To, got.Code)
	}
	row := allocationAudit(t, db, a.ID)
	var after struct{ Status, Owner string }
	if err := json.Unmarshal(row.After, &after); err != nil || after.Status != string(c.To) || after.Owner != string(c.By) || row.Code != "" {
		t.Errorf("%s to %s by %s: the audit log has %s", a.Status, c.To, c.By, row.After)
	}
	want := map[broker.AllocationStatus][]string{
		broker.AllocationActive: {"provisioning.active", store.UsageStartedEvent}, broker.AllocationFailed: {"provisioning.failed"},
		broker.AllocationReleasing: {"provisioning.releasing.requested"}, broker.AllocationReleased: {"provisioning.releasing.completed"},
		broker.AllocationReleaseFailed: {"provisioning.release_failed"},
	}[c.To]
	if a.Status == broker.AllocationActive {
		want = append(want, store.UsageEndedEvent)
	}
	if told := must(store.OutboxTypes(ctx, db))(t)[events:]; !slices.Equal(told, want) {
		t.Errorf("%s to %s: told were %q", a.Status, c.To, told)
	}
	reached := map[broker.AllocationStatus]time.Time{
		broker.AllocationProvisioning: got.ProvisioningAt, broker.AllocationActive: got.ActiveAt, broker.AllocationFailed: got.FailedAt,
		broker.AllocationReleased: got.ReleasedAt, broker.AllocationReleaseFailed: got.ReleaseFailedAt, broker.AllocationReleasing: got.ReleasingAt,
	}[c.To]
	// The audit row has the time of the transaction's beginning. A retried release keeps its time.
	if first := a.Status != broker.AllocationReleaseFailed; first && !reached.After(row.At) || !first && !reached.Equal(a.ReleasingAt) {
		t.Errorf("%s to %s: reached at %v, in a transaction of %v", a.Status, c.To, reached, row.At)
	}
	events = len(must(store.OutboxTypes(ctx, db))(t))
	if again := must(db.TransitionAllocation(ctx, admin, a.ID, c))(t); asJSON(again) != asJSON(got) || len(must(store.OutboxTypes(ctx, db))(t)) != events {
		t.Errorf("%s to %s: a second call changed %s to %s", a.Status, c.To, asJSON(got), asJSON(again))
	}
}

func refusedTransition(t *testing.T, db *store.DB, a broker.Allocation, c store.AllocationChange) {
	t.Helper()
	events := len(must(store.OutboxTypes(ctx, db))(t))
	by := admin
	by.Name = fmt.Sprintf("ada-%s-%s", c.To, c.By) // equal refusals within a minute are one row
	_, err := db.TransitionAllocation(ctx, by, a.ID, c)
	refused(t, err, "transition_refused")
	if row := allocationAudit(t, db, a.ID); row.Code != "transition_refused" || row.Actor != by.Name {
		t.Errorf("%s to %s by %s: the audit log has %+v", a.Status, c.To, c.By, row)
	}
	if kept := must(db.Allocation(ctx, a.ID))(t); asJSON(kept) != asJSON(a) || len(must(store.OutboxTypes(ctx, db))(t)) != events {
		t.Errorf("a refused transition changed %s to %s, or was announced", asJSON(a), asJSON(kept))
	}
}

func allocationAudit(t *testing.T, db *store.DB, allocation string) store.SealedEntry {
	t.Helper()
	rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "allocation/" + allocation, Newest: true, Limit: 1}))(t)
	if len(rows) == 0 {
		t.Fatalf("nothing is audited of allocation %s", allocation)
	}
	return rows[0]
}

// A release that is under way becomes a forced one, once and with an audit row, and stays so when the tenant releases again.
func TestAReleaseUnderWayIsForced(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			db := storetest.Open(t, engine, ticking())
			offered(t, db, "h100")
			stock(t, db, "h100", "dc1", 1)
			a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), waysTo[broker.AllocationReleasing]...)
			events := len(must(store.OutboxTypes(ctx, db))(t))
			force := store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationAdmin, Reason: "the rack is sold", Force: true}
			for range 2 {
				got := must(db.TransitionAllocation(ctx, admin, a.ID, force))(t)
				if kept := must(db.Allocation(ctx, a.ID))(t); !got.Forced || asJSON(kept) != asJSON(got) || !got.ReleasingAt.Equal(a.ReleasingAt) {
					t.Errorf("it is %s, and kept is %s", asJSON(got), asJSON(kept))
				}
			}
			rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "allocation/" + a.ID, Newest: true, Limit: 2}))(t)
			if string(rows[0].After) == string(rows[1].After) || rows[0].Reason != force.Reason || !strings.Contains(string(rows[0].After), `"forced":true`) {
				t.Errorf("the audit log has %s and %s", rows[0].After, rows[1].After)
			}
			if told := must(store.OutboxTypes(ctx, db))(t)[events:]; len(told) > 0 {
				t.Errorf("told were %q", told)
			}
			must(db.TransitionAllocation(ctx, admin, a.ID, toReleaseFailed))(t)
			if again := must(db.TransitionAllocation(ctx, admin, a.ID, toReleasing))(t); !again.Forced {
				t.Error("a tenant's release has taken the force back")
			}
		})
	}
}

// A release ends with a certificate for each node, of a turnover after the release began.
func TestAnAllocationIsReleasedByTheCertificatesOfItsNodesAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 3)
		a := walk(t, db, must(asks(db, "a-1", "h100", 2))(t), toProvisioning, toActive)
		clock.Advance(time.Second)
		certified(t, db, nodes[1], "c-early", "r-1", true)
		a = walk(t, db, a, toReleasing)
		clock.Advance(time.Second)
		certified(t, db, nodes[0], "c-0", "r-1", true)
		certified(t, db, nodes[1], "c-short", "r-1", false)
		certified(t, db, nodes[2], "c-other", "r-1", true)
		release := func(ids ...string) error {
			_, err := db.TransitionAllocation(ctx, admin, a.ID, store.AllocationChange{To: broker.AllocationReleased, By: broker.AllocationWorker, CertificateIDs: ids})
			return err
		}
		refused(t, release(), "certificate_missing")
		refused(t, release("c-0"), "certificate_missing")
		for _, second := range []string{"c-0", "c-early", "c-short", "c-other", "c-none"} {
			refused(t, release("c-0", second), "certificate_falls_short")
		}
		if got := audited(t, db, "allocation.transition", "certificate_falls_short"); got != 1 {
			t.Errorf("five equal refusals within a minute are %d rows, want 1", got)
		}
		clock.Advance(time.Second)
		certified(t, db, nodes[1], "c-1", "r-1", true)
		refused(t, release("c-0", "c-1", "c-other"), "certificate_falls_short")
		earlier := nodes[1]
		earlier.Epoch--
		certified(t, db, earlier, "c-epoch", "r-1", true)
		refused(t, release("c-0", "c-epoch"), "certificate_falls_short")
		ok(t, release("c-0", "c-1"))
		if a = must(db.Allocation(ctx, a.ID))(t); !slices.Equal(a.CertificateIDs, []string{"c-0", "c-1"}) || len(a.NodeIDs) != 2 {
			t.Errorf("%s", asJSON(a))
		}
		if again := must(asks(db, "a-2", "h100", 3))(t); len(again.NodeIDs) != 3 {
			t.Errorf("the nodes of a released allocation are %s", asJSON(again))
		}
	})
}

// A failure gives the nodes back; a failed release does not.
func TestAClaimEndsWithItsAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		must(asks(db, "a-1", "h100", 1))(t)
		swept(t, db)
		if got := word(t, db, n.ID); got != "allocated allocation_live" {
			t.Errorf("a claimed node is %s", got)
		}
		must(db.PlaceEvents(ctx, 1000))(t)
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.AvailabilityEvent}, Subject: "node/" + n.ID})
		if err != nil || len(told) != 1 || !strings.Contains(string(told[0].Data), `"allocation_id":"a-1"`) {
			t.Errorf("told is %+v, %v", told, err)
		}
		walk(t, db, must(db.Allocation(ctx, "a-1"))(t), waysTo[broker.AllocationFailed]...)
		swept(t, db)
		if got := reasons(t, db, n); len(got) > 0 {
			t.Errorf("after a failure the node is kept by %v", got)
		}
		walk(t, db, must(asks(db, "a-2", "h100", 1))(t), waysTo[broker.AllocationReleaseFailed]...)
		if got := reasons(t, db, n); !slices.Equal(got, []string{"allocation_live"}) {
			t.Errorf("after a failed release the node is kept by %v", got)
		}
		if err := store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at) VALUES ('a-3', '`+n.ID+`', 1, 0)`); err == nil {
			t.Error("the schema holds two live claims of a node")
		}
	})
}

// Who lets a user in by hand gets no node that an allocation holds.
func TestAClaimedNodeTakesTheUsersOfItsAllocationAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 2)
		n, other := nodes[0], nodes[1]
		must(asks(db, "a-1", "h100", 1))(t)
		_, err := letsIn(db, n, "a-2", "p-1", false)
		refused(t, err, "allocation_live")
		refused(t, letsInError(db, n, "a-1"), "allocation_ended") // nothing was asked of the node yet
		a := walk(t, db, must(db.Allocation(ctx, "a-1"))(t), toProvisioning)
		refused(t, letsInError(db, other, "a-1"), "allocation_ended")
		ok(t, letsInError(db, n, "a-1"))
		walk(t, db, a, toActive)
		ok(t, letsInError(db, n, "a-1")) // more keys
		walk(t, db, a, toReleasing)
		refused(t, letsInError(db, n, "a-1"), "allocation_ended")

		walk(t, db, must(asks(db, "a-3", "h100", 1))(t), waysTo[broker.AllocationFailed]...)
		refused(t, letsInError(db, other, "a-3"), "allocation_ended")
	})
}

func letsInError(db *store.DB, n broker.Node, allocation string) error {
	_, err := letsIn(db, n, allocation, "p-1", false)
	return err
}

// No turnover takes a node from an allocation that its tenant uses or is about to use, even while
// the tenant has no user on the node. A release is turned over.
func TestNoTurnoverTakesTheNodeOfAnAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		a := must(asks(db, "a-1", "h100", 1))(t)
		refusals := 0
		kept := func() {
			t.Helper()
			_, err := db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-2")
			refused(t, err, "allocation_live")
			refusals++
			if now := must(db.Node(ctx, n.ID))(t); now.TurnoverOwed || audited(t, db, "turnover.begin", "allocation_live") != refusals {
				t.Errorf("%s: a turnover is owed, or the refusal is not on record", a.Status)
			}
			_, err = db.ForceRelease(ctx, admin, turn(n, "r-1"), "a-2")
			refused(t, err, "allocation_live")
			if audited(t, db, "allocation.force_release", "allocation_live") != refusals {
				t.Errorf("%s: the refusal of a release by force is not on record", a.Status)
			}
		}
		kept()
		for _, c := range []store.AllocationChange{toProvisioning, toActive} {
			a = walk(t, db, a, c)
			kept()
		}
		walk(t, db, a, toReleasing)
		must(db.ForceRelease(ctx, admin, turn(n, "r-1")))(t)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
	})
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		must(asks(db, "a-1", "h100", 1))(t)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
	})
}

func TestAllocationsAreListedNewestFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		for _, sku := range []string{"h100", "h200"} {
			offered(t, db, sku)
			stock(t, db, sku, "dc1", 2)
			stock(t, db, sku, "dc2", 1)
		}
		create := func(id, project, sku, site string, labels map[string]string) {
			must(db.CreateAllocation(ctx, admin, store.NewAllocation{
				ID: id, ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: sku, Nodes: 1, Site: site}, Labels: labels,
			}))(t)
		}
		create("a-9", "p-1", "h100", "dc1", map[string]string{"team": "vision", "tier": "gold"})
		create("a-3", "p-1", "h200", "dc2", map[string]string{"team": "vision"})
		clock.Advance(time.Second)
		create("a-5", "p-2", "h100", "dc2", nil)
		walk(t, db, must(db.Allocation(ctx, "a-3"))(t), toProvisioning, toActive)
		for _, row := range []struct {
			filter store.AllocationFilter
			want   []string
		}{
			{store.AllocationFilter{}, []string{"a-5", "a-9", "a-3"}},
			{store.AllocationFilter{ProjectID: "p-1"}, []string{"a-9", "a-3"}},
			{store.AllocationFilter{ProjectID: "p-9"}, nil},
			{store.AllocationFilter{SKU: "h100"}, []string{"a-5", "a-9"}},
			{store.AllocationFilter{Sites: []string{"dc2"}}, []string{"a-5", "a-3"}},
			{store.AllocationFilter{Statuses: []broker.AllocationStatus{broker.AllocationActive, broker.AllocationFailed}}, []string{"a-3"}},
			{store.AllocationFilter{Labels: map[string]string{"team": "vision"}}, []string{"a-9", "a-3"}},
			{store.AllocationFilter{Labels: map[string]string{"team": "vision", "tier": "gold"}}, []string{"a-9"}},
		} {
			for limit := range 4 { // 0: one page
				f := row.filter
				f.Limit = limit
				var got []string
				for {
					page, next, err := db.Allocations(ctx, f)
					ok(t, err)
					for _, a := range page {
						if len(a.NodeIDs) != 1 || asJSON(must(db.Allocation(ctx, a.ID))(t)) != asJSON(a) {
							t.Errorf("listed is %s", asJSON(a))
						}
						got = append(got, a.ID)
					}
					if f.After = next; next == "" {
						break
					}
				}
				if !slices.Equal(got, row.want) {
					t.Errorf("%+v in pages of %d: %v, want %v", row.filter, limit, got, row.want)
				}
			}
		}
		_, err := db.Allocation(ctx, "a-0")
		wantCode(t, err, "allocation_not_found")
		if page, _, err := db.Allocations(ctx, store.AllocationFilter{ProjectID: "p-1", After: "a-5"}); err != nil || len(page) > 0 {
			t.Errorf("with another project's allocation as the cursor %d are listed, %v", len(page), err)
		}
		ok(t, store.Exec(ctx, db, `INSERT INTO tenant_allocations (id, project_id, status, sku, nodes, gpus, site, image, key_ids, ends_at,
				labels, code, certificate_ids, requested_at, provisioning_at, active_at, releasing_at, released_at, failed_at, release_failed_at)
			WITH RECURSIVE count(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM count WHERE i < 100)
			SELECT 'b-' || i, project_id, 'failed', sku, nodes, gpus, site, image, key_ids, ends_at,
				labels, code, certificate_ids, requested_at, 0, 0, 0, 0, 0, 0 FROM tenant_allocations, count WHERE id = 'a-9'`))
		for _, f := range []store.AllocationFilter{{}, {Labels: map[string]string{"team": "vision"}}} {
			page, next, err := db.Allocations(ctx, f)
			if ok(t, err); len(page) != 100 || next != page[99].ID {
				t.Errorf("%+v: a page without a limit has %d, and goes on after %q", f, len(page), next)
			}
		}
	})
}

// The requests of one project are counted one after another: however many come at once, the quota
// holds. What has ended does not count.
func TestAProjectHoldsNoMoreThanItsQuota(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			db := storetest.Reopen(t, url, nil)
			brokers := []*store.DB{db}
			if engine == "postgres" {
				brokers = append(brokers, storetest.Reopen(t, url, nil))
			}
			offered(t, db, "h100")
			stock(t, db, "h100", "dc1", 12)
			must(db.SetQuota(ctx, admin, broker.Quota{ProjectID: "p-1", SKU: "h100", Nodes: 5}, ""))(t)
			var work sync.WaitGroup
			var won atomic.Int64
			for i := range 50 {
				work.Go(func() {
					if _, err := asks(brokers[i%len(brokers)], fmt.Sprintf("a-%d", i), "h100", 1); err == nil {
						won.Add(1)
					} else if broker.AsError(err).Code != "quota_exceeded" {
						t.Errorf("asker %d: %v", i, err)
					}
				})
			}
			work.Wait()
			if rows := audited(t, db, "allocation.create", "quota_exceeded"); won.Load() != 5 || rows < 1 || rows >= 45 {
				t.Errorf("%d of 50 got a node, with a quota of 5, and 45 refusals are %d rows", won.Load(), rows)
			}
			held, _, err := db.Allocations(ctx, store.AllocationFilter{ProjectID: "p-1"})
			ok(t, err)
			walk(t, db, held[0], waysTo[broker.AllocationFailed]...)
			walk(t, db, held[1], waysTo[broker.AllocationReleaseFailed]...)
			_, err = asks(db, "more", "h100", 2)
			refused(t, err, "quota_exceeded")
			must(asks(db, "again", "h100", 1))(t)

			_, err = db.EndProject(ctx, admin, "p-1", "")
			refused(t, err, "project_in_use")
			must(db.EndProject(ctx, admin, "p-2", ""))(t)
			for project, code := range map[string]string{"p-2": "project_ended", "p-none": "project_not_found"} {
				_, err := db.CreateAllocation(ctx, admin, store.NewAllocation{
					ID: "x", ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1},
				})
				refused(t, err, code)
			}
			must(db.CreateSKU(ctx, admin, func() broker.SKU { s := broker.NewSKU(); s.ID = "h200"; return s }()))(t)
			_, err = asks(db, "other", "h200", 1) // no quota is a quota of nothing
			refused(t, err, "quota_exceeded")
		})
	}
}
