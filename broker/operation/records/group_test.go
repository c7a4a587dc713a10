package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/store"
)

// onGroup is an order of project p-1 on a group of its allocations.
func (s *site) onGroup(selector string) Order {
	s.Helper()
	g, err := broker.ParseGroup(selector)
	s.ok(err)
	return Order{Definition: parsed(s), Project: s.project, Group: &Group{Selector: g}, RequestedBy: "eve", Role: "project_member", Reason: "look"}
}

// labelled is an active allocation of one node with labels.
func (s *site) labelled(id, project string, labels map[string]string) {
	s.Helper()
	_, err := s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{
		ID: id, ProjectID: project, Labels: labels, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1},
	})
	s.ok(err)
	s.moves(id, broker.AllocationProvisioning, broker.AllocationWorker)
	s.moves(id, broker.AllocationActive, broker.AllocationWorker)
}

// grown adds alc-2 (n-2) and alc-3 (n-3) with labels to alc-1 (n-0, n-1), and alc-9 (n-4) of project p-2.
func (s *site) grown() {
	s.Helper()
	s.labelled("alc-2", "p-1", map[string]string{"tier": "gold"})
	s.join("n-3")
	s.labelled("alc-3", "p-1", map[string]string{"tier": "gold", "team": "a"})
	s.join("n-4")
	s.labelled("alc-9", "p-2", map[string]string{"tier": "gold"})
}

// kept is an operation as it is stored, with its members as id succeeded/failed/skipped code.
func (s *site) kept(id string) (o broker.Operation, members string) {
	s.Helper()
	o, err := s.db.Operation(s.Context(), id)
	s.ok(err)
	var all []string
	for _, m := range o.Members {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d/%d/%d %s", m.AllocationID, m.Succeeded, m.Failed, m.Skipped, m.Code)))
	}
	return o, strings.Join(all, ", ")
}

// A group is what its project holds at the moment of the request: no other project's, and nothing that is not active.
func TestAGroupIsOfTheProjectsActiveAllocations(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		for selector, want := range map[string]string{
			"all": "alc-1 alc-2 alc-3", "tier=gold": "alc-2 alc-3", "tier=gold,team=a": "alc-3", "sku=h100": "alc-1 alc-2 alc-3", "alc-3,alc-1,alc-3": "alc-1 alc-3",
			"tier=lead": "operation_group_empty", "sku=b200": "operation_group_empty", "site=dc9": "operation_group_empty", "id=alc-1": "operation_group_empty",
			"alc-1,alc-9": "allocation_not_found", "alc-none": "allocation_not_found", "status=active": "operation_group_empty",
		} {
			o, err := s.records.New(s.Context(), s.onGroup(selector))
			if err != nil {
				if broker.AsError(err).Code != want || strings.Contains(err.Error(), "n-4") {
					t.Errorf("%s: %v, want %s", selector, err, want)
				}
				continue
			}
			var got, nodes []string
			for _, p := range o.Parts() {
				got, nodes = append(got, p.AllocationID), append(nodes, p.NodeIDs...)
			}
			if strings.Join(got, " ") != want || !slices.Equal(nodes, o.NodeIDs) || o.Target != broker.TargetGroup || o.Plan.GPUs != labGPUs {
				t.Errorf("%s: %q %q, want %s", selector, got, nodes, want)
			}
		}
		s.moves("alc-2", broker.AllocationReleasing, broker.AllocationUser)
		_, err := s.records.New(s.Context(), s.onGroup("alc-2,alc-3"))
		s.refused(err, broker.OperationTargetGone)
		kind, nowhere := s.onGroup("all"), s.onGroup("all")
		kind.Definition = parsed(s, "[node, allocation, group]", "[node, allocation]")
		_, err = s.records.New(s.Context(), kind)
		s.refused(err, "operation_target_kind")
		nowhere.Group.Sites = []string{"dc9"} // of a person of the platform who sees that site alone
		_, err = s.records.New(s.Context(), nowhere)
		s.refused(err, "operation_group_empty")
		nowhere.Group.Selector = s.onGroup("alc-1").Group.Selector
		_, err = s.records.New(s.Context(), nowhere)
		s.refused(err, "allocation_not_found")

		k := broker.NewSKU() // nodes of two SKUs have no plan in common
		k.ID, k.GPUVendor, k.GPUCount = "b200", "nvidia", labGPUs
		_, err = s.db.CreateSKU(s.Context(), ada, k)
		s.ok(err)
		_, err = s.db.SetQuota(s.Context(), ada, broker.Quota{ProjectID: "p-1", SKU: "b200", Nodes: 1}, "")
		s.ok(err)
		s.joinAs("n-5", "b200")
		_, err = s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{ID: "alc-5", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "b200", Nodes: 1}})
		s.ok(err)
		s.moves("alc-5", broker.AllocationProvisioning, broker.AllocationWorker)
		s.moves("alc-5", broker.AllocationActive, broker.AllocationWorker)
		_, err = s.records.New(s.Context(), s.onGroup("all"))
		s.refused(err, "operation_group_mixed")
		_, err = s.records.New(s.Context(), s.onGroup("sku=b200"))
		s.ok(err)
	})
}

// A group has a bounded number of members.
func TestAGroupIsBounded(t *testing.T) {
	each(t, func(s *site) {
		_, err := s.db.SetQuota(s.Context(), ada, broker.Quota{ProjectID: "p-1", SKU: "h100", Nodes: 200}, "")
		s.ok(err)
		var ids []string
		for i := range broker.MostOperationMembers {
			s.join(fmt.Sprint("n-m", i))
			ids = append(ids, s.allocated(fmt.Sprint("alc-m", i), "p-1", 1).ID)
		}
		_, err = s.records.New(s.Context(), s.onGroup(strings.Join(ids, ",")))
		s.ok(err)
		for _, selector := range []string{"all", strings.Join(append(ids, "alc-1"), ",")} {
			_, err = s.records.New(s.Context(), s.onGroup(selector))
			s.refused(err, "operation_too_large")
		}
	})
}

// A group is one operation: stored with its members, listed with each of them, and proven to its tenant as one.
func TestAGroupIsOneOperation(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		w := s.onGroup("all")
		w.Batches, w.Key = broker.OperationBatches{Canary: 2, Size: 1}, "k"
		o := s.begun(w)
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		kept, members := s.kept(o.ID)
		if members != "alc-1 2/0/0, alc-2 1/0/0, alc-3 1/0/0" || kept.Group() != "all" || kept.Batch != 3 || kept.BatchCount() != 3 || len(s.tasks.all) != 4 {
			t.Errorf("%s: %+v", members, kept)
		}
		for _, k := range s.tasks.all {
			if k.NodeID == "n-4" {
				t.Error("another project's node has a task")
			}
		}
		other := s.begun(s.onLab())
		s.settle()
		for project, of := range map[string]map[string]int{"p-1": {"alc-1": 2, "alc-2": 1, "alc-9": 0, "alc-_": 0, "%": 0}, "p-2": {"alc-1": 0, "alc-9": 0}} {
			for id, want := range of {
				page, _, err := s.db.Operations(s.Context(), store.OperationFilter{ProjectID: project, AllocationID: id})
				if s.ok(err); len(page) != want {
					t.Errorf("%s has %d operations on %s, want %d", project, len(page), id, want)
				}
			}
		}
		s.stands(other.ID, broker.OperationSucceeded, 1, "")
		r := s.received(kept)
		if r.AllocationID != "" || !slices.Equal(r.AllocationIDs, []string{"alc-1", "alc-2", "alc-3"}) || r.Nodes != 4 || r.Status != statement.Failed {
			t.Errorf("%+v", r)
		}
		if said := s.stated(kept); len(said.Tasks) != 4 || !slices.Equal(said.AllocationIDs, r.AllocationIDs) {
			t.Errorf("%+v", said)
		}
		s.told()
	})
}

// A member that is released between the batches is skipped. Its end waits for nobody: its nodes are free at once.
func TestAMemberReleasedBetweenTheBatches(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		s.tasks.does = func(*broker.Task) {}
		w := s.onGroup("all")
		w.Batches = broker.OperationBatches{Canary: 2, Size: 1}
		o := s.begun(w)
		s.settle()
		gone, err := s.db.Allocation(s.Context(), "alc-2")
		s.ok(err)
		end := s.onLab()
		end.Trigger, end.Allocation = broker.TriggerEnd, gone
		s.moves("alc-2", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.begin(end)
		if err == nil {
			t.Error("two operations have one node")
		}
		s.settle() // the canary is at work
		s.begun(end)
		s.tasks.does = succeeds
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		kept, members := s.kept(o.ID)
		if members != "alc-1 2/0/0, alc-2 0/0/1 operation_target_gone, alc-3 1/0/0" || kept.BatchCount() != 2 || kept.Batch != 2 {
			t.Errorf("%s, batch %d of %d", members, kept.Batch, kept.BatchCount())
		}
		for _, k := range s.tasks.all {
			if k.NodeID == gone.NodeIDs[0] && k.CorrelationID == kept.RunID {
				t.Error("the node of the released member has a task")
			}
		}
		if r := s.received(kept); r.Nodes != 3 || len(r.AllocationIDs) != 3 {
			t.Errorf("%+v", r)
		}
	})
}

// Between the request and its start a member is released: nothing begins. A retry skips what is gone, as long as
// something is there.
func TestARetryOfAGroupSkipsWhatIsGone(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		o, err := s.records.New(s.Context(), s.onGroup("tier=gold"))
		s.ok(err)
		again, err := s.records.New(s.Context(), s.onGroup("alc-1,alc-3"))
		s.ok(err)
		s.moves("alc-2", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.engine.Start(s.Context(), Start(o, ""))
		s.refused(err, broker.OperationTargetGone)
		s.tasks.does = fails
		_, err = s.engine.Start(s.Context(), Start(again, ""))
		s.ok(err)
		s.settle()
		failed := s.stands(again.ID, broker.OperationFailed, 1, "step_failed")
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		start, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "eve"}, "again")
		s.ok(err)
		if part := again.Parts()[0]; len(start.Locks) != 2 || part.AllocationID != "alc-1" || slices.Contains(start.Locks, "operation/"+part.NodeIDs[0]) {
			t.Errorf("a retry locks %v, and %v are another's", start.Locks, part.NodeIDs)
		}
		s.tasks.does = succeeds
		_, err = s.engine.Start(s.Context(), start)
		s.ok(err)
		if _, members := s.kept(again.ID); members != "alc-1 0/0/0, alc-3 0/0/0" {
			t.Error(members)
		}
		s.tasks.does = fails
		s.settle()
		failed = s.stands(again.ID, broker.OperationFailed, 2, "step_failed")
		if _, members := s.kept(again.ID); members != "alc-1 0/0/2 operation_target_gone, alc-3 0/1/0 step_failed" {
			t.Error(members)
		}
		s.moves("alc-3", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.records.Retry(s.Context(), failed, chain.Actor{Name: "eve"}, "again")
		s.refused(err, broker.OperationTargetGone)
	})
}

// Between the request for a retry and its start one more member is released: its nodes would be locked, so nothing begins.
func TestARetryLocksNothingThatIsLostMeanwhile(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		o, err := s.records.New(s.Context(), s.onGroup("alc-1,alc-3"))
		s.ok(err)
		s.tasks.does = fails
		_, err = s.engine.Start(s.Context(), Start(o, ""))
		s.ok(err)
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, "step_failed")
		start, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "eve"}, "again")
		s.ok(err)
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.engine.Start(s.Context(), start)
		s.refused(err, broker.OperationTargetGone)
		s.stands(o.ID, broker.OperationFailed, 1, "step_failed")
	})
}

// A group works on no more allocations at once than the policy permits, and each counts while it has not ended.
func TestAGroupCountsAsTheAllocationsOfItsWidestBatch(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		two := int64(2)
		_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{Operation: "demo.look", Overlay: broker.OperationOverlay{MaxConcurrency: &two}}, false, "test")
		s.ok(err)
		s.tasks.does = func(*broker.Task) {}
		_, err = s.begin(s.onGroup("all"))
		s.refused(err, "operation_concurrency_denied")
		w := s.onGroup("all")
		w.Batches = broker.OperationBatches{Size: 2}
		w.Group = s.onGroup("alc-1,alc-2").Group
		s.begun(w)
		_, err = s.begin(s.onGroup("tier=gold,team=a"))
		s.ok(err)
		s.join("n-5")
		s.labelled("alc-4", "p-1", nil)
		_, err = s.begin(s.onGroup("alc-4"))
		s.refused(err, "operation_concurrency_denied")
	})
}

// The conditions of a policy are asked about each member: what one label denies, the group does not do.
func TestEachMemberIsHeldAgainstTheConditions(t *testing.T) {
	each(t, func(s *site) {
		s.grown()
		s.condition(broker.Place{}, `target_kind == "group" && node_count == 2 && !("team" in labels)`)
		_, err := s.begin(s.onGroup("tier=gold"))
		s.refused(err, "operation_condition_denied")
		s.condition(broker.Place{}, `target_kind == "group" && node_count == 2 && sku == "h100" && labels.tier == "gold"`)
		s.begun(s.onGroup("tier=gold"))
		s.tasks.does = func(*broker.Task) {}
		s.settle()
		_, err = s.begin(s.onGroup("alc-1,alc-2")) // alc-2 is taken, and alc-1 has no label
		s.refused(err, "operation_condition_denied")
	})
}

// The age of a running operation is that of its present batch: an operation of many batches may last for days.
func TestTheAgeOfAnOperationIsThatOfItsBatch(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		w := s.onLab()
		w.Batches = broker.OperationBatches{Canary: 1}
		s.begun(w)
		oldest := func() time.Duration {
			all, err := s.db.LiveOperations(s.Context())
			s.ok(err)
			if len(all) != 1 {
				t.Fatalf("%+v", all)
			}
			return all[0].Oldest
		}
		s.clock.Advance(time.Hour)
		if age := oldest(); age != time.Hour {
			t.Errorf("queued for %s", age)
		}
		s.settle()
		s.clock.Advance(25 * time.Hour)
		if age := oldest(); age < 25*time.Hour {
			t.Errorf("in its first batch for %s", age)
		}
		s.tasks.does = func(k *broker.Task) {
			if k.NodeID == s.lab.NodeIDs[0] {
				succeeds(k)
			}
		}
		s.settle()
		if age := oldest(); age > time.Minute {
			t.Errorf("in its second batch for %s", age)
		}
	})
}
