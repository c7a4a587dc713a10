package records

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	maintenancerecords "github.com/hostler/hostler/broker/maintenance/records"
	"github.com/hostler/hostler/broker/store"
)

// maintained opens or plans a maintenance of a node.
func (s *site) maintained(m broker.Maintenance) broker.Maintenance {
	s.Helper()
	m.Category, m.Reason = "gpu", "ECC errors"
	m, err := maintenancerecords.Records{DB: s.db}.Create(s.Context(), ada, m)
	s.ok(err)
	return m
}

// look takes the steps of maintenances that are due, as a broker does that has just started.
func (s *site) look() {
	s.Helper()
	w := &maintenancerecords.Watch{Records: maintenancerecords.Records{DB: s.db}, Log: zap.NewNop()}
	s.ok(w.Look(s.Context()))
}

// tells counts the events of a type.
func (s *site) tells(typ string) int {
	s.Helper()
	for placed := int64(1); placed > 0; {
		var err error
		placed, err = s.db.PlaceEvents(s.Context(), 100)
		s.ok(err)
	}
	events, _, err := s.db.Outbox(s.Context(), store.OutboxFilter{Types: []string{typ}, Limit: 1000})
	s.ok(err)
	return len(events)
}

// A tenant stays on a node in maintenance. Nobody else gets the node, not even after the tenant has left and the node was
// turned over, until the maintenance is closed.
func TestATenantStaysOnANodeInMaintenance(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.ask("a-1", 1)
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		m := s.maintained(broker.Maintenance{NodeID: "n-0", Tenant: broker.TenantStays})
		s.look()
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		if s.tells(store.TenantMaintenanceOpenedEvent) != 1 || s.tells(store.ReleasingRequestedEvent) != 0 {
			s.Error("the tenant was not told, or was released")
		}
		_, err := s.db.TransitionAllocation(s.Context(), ada, "a-1", store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser})
		s.ok(err)
		for range 5 { // until the turnover has ended
			s.settle()
		}
		s.stands("a-1", broker.AllocationReleased, "")
		ask := store.NewAllocation{ID: "a-2", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-p-1"}}
		if _, err = s.db.CreateAllocation(s.Context(), ada, ask); broker.AsError(err).Code != "sku_unavailable" {
			s.Errorf("a node in maintenance was placed: %v", err)
		}
		m, err = s.db.CloseMaintenance(s.Context(), ada, m.ID, store.MaintenanceEnd{Reason: "done"}) // it was turned over since
		if s.ok(err); m.Status != broker.MaintenanceClosed {
			s.Errorf("it is %s because %s", m.Status, m.Because)
		}
		_, err = s.db.CreateAllocation(s.Context(), ada, ask)
		s.ok(err)
	})
}

// A planned maintenance asks the tenant to leave when it begins. It begins also if no broker ran at that moment.
func TestATenantLeavesWhenTheMaintenanceBegins(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.ask("a-1", 1)
		s.settle()
		from := s.db.Now().Add(20 * time.Hour)
		m := s.maintained(broker.Maintenance{NodeID: "n-0", Tenant: broker.TenantLeaves, Planned: true, From: from, Until: from.Add(4 * time.Hour)})
		if s.tells(store.TenantMaintenancePlannedEvent) != 1 {
			s.Error("the tenant was not told of the plan")
		}
		s.look()
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		s.clock.Advance(from.Add(-time.Hour).Sub(s.db.Now()))
		s.look()
		s.look()
		if s.tells(store.TenantMaintenanceSoonEvent) != 1 {
			s.Error("the tenant was not told once that it begins soon")
		}
		s.clock.Advance(2 * time.Hour) // no broker runs
		s.look()
		if m, err := s.db.Maintenance(s.Context(), m.ID); err != nil || m.Status != broker.MaintenanceOpen {
			s.Errorf("it is %s, %v", m.Status, err)
		}
		s.stands("a-1", broker.AllocationReleasing, "")
		if s.tells(store.TenantMaintenanceOpenedEvent) != 1 || s.tells(store.ReleasingRequestedEvent) != 1 {
			s.Error("the tenant was not told")
		}
		for range 5 {
			s.settle()
		}
		s.stands("a-1", broker.AllocationReleased, "")
		n, err := s.db.Node(s.Context(), "n-0")
		s.ok(err)
		h, err := s.db.Handout(s.Context(), n)
		s.ok(err)
		if word, codes := h.Availability(); word != broker.InMaintenance || !slices.Contains(codes, "maintenance") {
			s.Errorf("it is %s because of %v", word, codes)
		}
	})
}

// A tenant that comes up while the maintenance opens is released once the allocation is active.
func TestATenantWhoIsNotThereYetLeavesLater(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.ask("a-1", 1)
		s.maintained(broker.Maintenance{NodeID: "n-0", Tenant: broker.TenantLeaves})
		s.look()
		s.stands("a-1", broker.AllocationRequested, "")
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		s.look()
		s.stands("a-1", broker.AllocationReleasing, "")
	})
}
