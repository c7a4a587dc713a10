package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// onNodes is an order of the platform on a group of nodes.
func (s *site) onNodes(selector string) Order {
	s.Helper()
	g, err := broker.ParseSelector(selector)
	s.ok(err)
	return Order{Definition: parsed(s), Group: &Group{Selector: g}, RequestedBy: "ada", Role: "operator", Reason: "look"}
}

// nodesOf is an operation as it is stored, with its nodes as id succeeded/failed/skipped code.
func (s *site) nodesOf(id string) (o broker.Operation, nodes string) {
	s.Helper()
	o, err := s.db.Operation(s.Context(), id)
	s.ok(err)
	var all []string
	for _, m := range o.Members {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d/%d/%d %s", m.NodeID, m.Succeeded, m.Failed, m.Skipped, m.Code)))
	}
	return o, strings.Join(all, ", ")
}

// A group of the platform has the nodes that the selector names and that no tenant has. The others are passed over, with the reason.
func TestAGroupOfThePlatformIsOfNodesOfNoTenant(t *testing.T) {
	each(t, func(s *site) {
		s.join("n-3") // n-0 and n-1 are allocation alc-1's, n-2 and n-3 nobody's
		for selector, want := range map[string]string{
			"all": "n-2 n-3; n-0 allocation_live, n-1 allocation_live", "n-3": "n-3; ", "n-1,n-2": "n-2; n-1 allocation_live",
			"n-3,n-3,n-3": "n-3; ", "sku=h100,status=active": "n-2 n-3; n-0 allocation_live, n-1 allocation_live",
			"n-1": "operation_group_empty", "sku=b200": "operation_group_empty", "site=dc9": "operation_group_empty",
		} {
			w, passed := s.onNodes(selector), []string{}
			w.Passed = func(p Passed) { passed = append(passed, p.Node.ID+" "+p.Code) }
			o, err := s.records.New(s.Context(), w)
			if err != nil {
				s.refused(err, want)
				continue
			}
			slices.Sort(passed)
			if got := strings.Join(o.NodeIDs, " ") + "; " + strings.Join(passed, ", "); got != want || o.Target != broker.TargetGroup || o.ProjectID != "" || len(o.Members) != len(o.NodeIDs) {
				t.Errorf("%s: %s, want %s", selector, got, want)
			}
		}
		elsewhere := s.onNodes("all")
		elsewhere.Group.Sites = []string{"dc9"}
		_, err := s.records.New(s.Context(), elsewhere)
		s.refused(err, "operation_group_empty")
		s.joinAs("n-4", "")
		_, err = s.records.New(s.Context(), s.onNodes("all"))
		s.refused(err, "operation_group_mixed")
	})
}

// A node that a project gets before its batch begins is its project's, which begins operations there at once, and the
// operation goes on without it. A node of the batch that is under way is handed to nobody, and is free as soon as its task
// has ended.
func TestANodeThatIsHandedOutMeanwhileIsSkipped(t *testing.T) {
	each(t, func(s *site) {
		s.join("n-3")
		s.join("n-4")
		w := s.onNodes("all")
		w.Batches = broker.OperationBatches{Canary: 1}
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		has := func(node string) bool {
			run, _, err := s.db.RunOfNode(s.Context(), node)
			s.ok(err)
			return run != ""
		}
		var own broker.Operation
		s.tasks.does = func(k *broker.Task) {
			if k.NodeID == "n-2" {
				if !has("n-2") || has("n-3") || has("n-4") {
					t.Errorf("while the canary is under way, the operation has n-2 %t, n-3 %t, n-4 %t", has("n-2"), has("n-3"), has("n-4"))
				}
				tenants := s.onLab()
				tenants.Allocation = s.allocated("alc-7", "p-1", 1) // n-2 is not free
				own = s.begun(tenants)
			} else if strings.Contains(k.IdempotencyKey, o.ID) && has("n-2") {
				t.Error("the canary has ended and is not free")
			}
			succeeds(k)
		}
		_, err = s.engine.Start(s.Context(), Start(o, "operator"))
		s.ok(err)
		s.settle()
		s.stands(own.ID, broker.OperationSucceeded, 1, "")
		o, nodes := s.nodesOf(o.ID)
		gone, err := s.db.Allocation(s.Context(), "alc-7")
		s.ok(err)
		if len(gone.NodeIDs) != 1 || gone.NodeIDs[0] == "n-2" {
			t.Fatalf("alc-7 has %q", gone.NodeIDs)
		}
		want := strings.Replace("n-2 1/0/0, n-3 1/0/0, n-4 1/0/0", gone.NodeIDs[0]+" 1/0/0", gone.NodeIDs[0]+" 0/0/1 allocation_live", 1)
		if o.Status != broker.OperationSucceeded || nodes != want {
			t.Errorf("%s %s: %s, want %s", o.Status, o.Code, nodes, want)
		}
		for _, id := range o.NodeIDs {
			if has(id) {
				t.Errorf("node %s is not free", id)
			}
		}
		rows, err := s.db.ListAudit(s.Context(), store.AuditFilter{Subject: "operation/" + o.ID, Action: "operation.request", Limit: 1})
		s.ok(err)
		if len(rows) != 1 || !strings.Contains(string(rows[0].After), `"passed_over":{"n-0":"allocation_live","n-1":"allocation_live"}`) {
			t.Errorf("the audit log has %+v", rows)
		}
		if made := s.stated(o); len(made.NodeIDs) != 2 || len(made.AllocationIDs) != 0 {
			t.Errorf("%+v", made)
		}
	})
}

// What is a node's own affair passes it over: a definition for drained nodes leaves those in service alone, and a node that a run
// has is that run's.
func TestAGroupPassesOverWhatOneNodeWouldBeRefusedFor(t *testing.T) {
	each(t, func(s *site) {
		s.join("n-3")
		s.join("n-4")
		w, passed := s.onNodes("n-2,n-3,n-4"), []string{}
		w.Passed = func(p Passed) { passed = append(passed, p.Node.ID+" "+p.Code) }
		w.Definition = parsed(s, "safety: forced", "safety: drained")
		_, err := s.records.New(s.Context(), w)
		s.refused(err, "operation_group_empty")
		_, err = s.db.Transition(s.Context(), ada, "n-3", store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"})
		s.ok(err)
		passed = nil
		o, err := s.records.New(s.Context(), w)
		s.ok(err)
		if slices.Sort(passed); !slices.Equal(o.NodeIDs, []string{"n-3"}) || strings.Join(passed, ", ") != "n-2 operation_not_drained, n-4 operation_not_drained" {
			t.Errorf("on %q, passed over %q", o.NodeIDs, passed)
		}
		s.begun(Order{Definition: parsed(s), Node: s.node("n-4"), RequestedBy: "ada"})
		w.Definition, passed = parsed(s), nil
		o, err = s.records.New(s.Context(), w)
		s.ok(err)
		if !slices.Equal(o.NodeIDs, []string{"n-2", "n-3"}) || strings.Join(passed, ", ") != "n-4 node_in_run" {
			t.Errorf("on %q, passed over %q", o.NodeIDs, passed)
		}
	})
}

// Two operations begun on the same nodes at the same moment never have a node together: what the first has taken, the second
// skips, and says so.
func TestTwoGroupsShareNoNode(t *testing.T) {
	each(t, func(s *site) {
		s.join("n-3")
		s.tasks.does = func(k *broker.Task) {
			if run, _, err := s.db.RunOfNode(s.Context(), k.NodeID); err != nil || !strings.HasPrefix(k.IdempotencyKey, run+"/") || run == "" {
				t.Errorf("task %s is on a node that run %q has, %v", k.IdempotencyKey, run, err)
			}
		}
		first, err := s.records.New(s.Context(), s.onNodes("n-2,n-3"))
		s.ok(err)
		second, err := s.records.New(s.Context(), s.onNodes("n-2,n-3"))
		s.ok(err)
		for _, o := range []broker.Operation{first, second} {
			_, err = s.engine.Start(s.Context(), Start(o, "operator"))
			s.ok(err)
		}
		s.settle()
		if o, err := s.db.Operation(s.Context(), first.ID); err != nil || o.Status.Ended() { // which of the two came first is chance
			first, second = second, first
		}
		if _, nodes := s.nodesOf(second.ID); nodes != "n-2 0/0/1 node_in_run, n-3 0/0/1 node_in_run" {
			t.Errorf("the second has %s", nodes)
		}
		s.stands(second.ID, broker.OperationFailed, 1, broker.OperationTargetGone)
		s.tasks.does = succeeds
		s.settle()
		s.stands(first.ID, broker.OperationSucceeded, 1, "")
		if _, nodes := s.nodesOf(first.ID); nodes != "n-2 1/0/0, n-3 1/0/0" {
			t.Errorf("the first has %s", nodes)
		}
	})
}

// A selector that names more nodes than an operation may have begins nothing, whatever those nodes are.
func TestAGroupOfNodesIsBounded(t *testing.T) {
	each(t, func(s *site) {
		ids := []string{"n-2"}
		for i := range broker.MostOperationNodes {
			id := fmt.Sprint("n-m", i)
			_, err := s.db.CreateNode(s.Context(), ada, store.NewNode{ID: id, Hostname: "gpu-" + id, SKU: "h100", Bootstrap: "command", TokenHash: "h-" + id, TokenExpires: s.db.Now().Add(time.Hour)})
			s.ok(err)
			ids = append(ids, id)
		}
		for _, selector := range []string{"all", "sku=h100", strings.Join(ids, ",")} {
			_, err := s.records.New(s.Context(), s.onNodes(selector))
			s.refused(err, "operation_too_large")
		}
		o, err := s.records.New(s.Context(), s.onNodes(strings.Join(ids[:broker.MostOperationNodes], ",")))
		s.ok(err)
		if !slices.Equal(o.NodeIDs, []string{"n-2"}) || len(o.PassedOver) != broker.MostOperationNodes-1 || o.PassedOver["n-m0"] != "node_status" {
			t.Errorf("on %q, passed over %d", o.NodeIDs, len(o.PassedOver))
		}
	})
}
