package records

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
)

func TestATargetIsHeldAgainstTheRecords(t *testing.T) {
	each(t, func(s *site) {
		foreign, gone, drained, wide := s.onLab(), s.onLab(), s.onLab(), s.onLab()
		other, err := s.db.Project(s.Context(), broker.Place{}, "p-2")
		s.ok(err)
		foreign.Project = other
		gone.Allocation.ID = "alc-none"
		drained.Definition = parsed(s, "safety: forced", "safety: drained")
		wide.Definition = parsed(s, "nvidia", "amd")
		idle, kind := s.onLab(), s.onLab()
		idle.Definition = parsed(s, "safety: forced", "safety: idle")
		kind.Definition = parsed(s, "targets: [node, allocation, group]", "targets: [node]")
		for name, c := range map[string]struct {
			w    Order
			code string
		}{
			"another project's allocation":  {foreign, broker.OperationTargetGone},
			"no allocation":                 {gone, "allocation_not_found"},
			"a definition for idle nodes":   {idle, "operation_not_idle"},
			"a definition for drained ones": {drained, "operation_not_drained"},
			"another vendor":                {wide, "capability_missing"},
			"another kind of target":        {kind, "operation_target_kind"},
			"a node that is allocated":      {Order{Definition: parsed(s), Node: s.node("n-0"), RequestedBy: "ada"}, "allocation_live"},
		} {
			_, err := s.begin(c.w)
			if err == nil || broker.AsError(err).Code != c.code {
				t.Errorf("%s: %v, want %s", name, err, c.code)
			}
			if err != nil && c.w.Allocation.ID != "" && strings.Contains(err.Error(), "n-0") {
				t.Errorf("%s: a tenant reads the name of a node: %v", name, err)
			}
		}
		// Between the check and the start, the allocation is released.
		o, err := s.records.New(s.Context(), s.onLab())
		s.ok(err)
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.engine.Start(s.Context(), Start(o, ""))
		s.refused(err, broker.OperationTargetGone)
		_, err = s.db.Operation(s.Context(), o.ID)
		s.refused(err, "operation_not_found")
	})
}

// A release takes its task from an operation on the allocation.
func TestAReleaseEndsTheOperationOnItsNodes(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.settle()
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, broker.OperationTargetGone)
		_, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "eve"}, "")
		s.refused(err, broker.OperationTargetGone)
	})
}

// No two operations have one node, and a node with an operation is handed to nobody.
func TestAnOperationHasItsNodesAlone(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		s.begun(s.onLab())
		if _, err := s.begin(s.onLab()); err == nil {
			t.Error("two operations have one allocation")
		}
		onNode := Order{Definition: parsed(s, "safety: forced", "safety: idle"), Node: s.node("n-2"), RequestedBy: "ada"}
		o := s.begun(onNode)
		if o.Trigger != broker.TriggerAdmin || o.ProjectID != "" || o.TargetID != "n-2" {
			t.Errorf("%+v", o)
		}
		_, err := s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{ID: "alc-2", ProjectID: "p-2", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}})
		if err == nil {
			t.Error("the node was handed out")
		}
		s.tasks.does = succeeds
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		s.allocated("alc-2", "p-2", 1)
	})
}
