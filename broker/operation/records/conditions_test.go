package records

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

func (s *site) condition(at broker.Place, expression string) {
	s.Helper()
	_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{Place: at, Operation: "demo.look", Overlay: broker.OperationOverlay{
		Conditions: []broker.OperationCondition{{Name: "rule", Expression: expression, Message: "ask Ada"}},
	}}, false, "test")
	s.ok(err)
}

// Conditions see the facts of a project's operation on its allocation, and of the platform's on a node.
func TestConditionsSeeTheFactsOfAnOperation(t *testing.T) {
	each(t, func(s *site) {
		s.condition(broker.Place{}, `operation == "demo.look" && version == "v1" && backend == "node_agent" && sku == "h100" && size(artifact_sources) == 0 && labels == {} &&
			(target_kind == "allocation" && node_count == 2 && trigger == "tenant_request" || target_kind == "node" && node_count == 1 && trigger == "admin")`)
		o := s.begun(s.onLab())
		_, err := s.begin(Order{Definition: parsed(s), Node: s.node("n-2"), RequestedBy: "ada", Role: "operator", Reason: "look"})
		s.ok(err)
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		s.condition(broker.Place{OrganisationID: "org-1"}, `labels.tier == "gold"`)
		_, err = s.begin(s.onLab())
		s.refused(err, "operation_condition_denied")
		if err != nil && !strings.Contains(err.Error(), "the tenant's policy for demo.look: conditions has rule, which cannot be judged: it fails, such as for a label that is missing") {
			t.Error(err)
		}
		s.condition(broker.Place{OrganisationID: "org-1"}, `"tier" in labels`)
		if _, err = s.begin(s.onLab()); err == nil || !strings.Contains(err.Error(), "which is not true: ask Ada") {
			t.Error(err)
		}
		_, err = s.begin(Order{Definition: parsed(s), Node: s.node("n-2"), RequestedBy: "ada", Role: "operator", Reason: "look"})
		s.ok(err) // the organisation's policy is not the platform's
	})
}

// The time of day is that at which an attempt begins: an operation that runs goes on after it, and none begins then.
func TestAnOperationThatRunsGoesOnAfterItsHours(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		s.condition(broker.Place{}, "hour < "+s.db.Now().UTC().Add(time.Hour).Format("15"))
		o := s.begun(s.onLab())
		s.settle()
		s.stands(o.ID, broker.OperationRunning, 1, "")
		s.clock.Advance(2 * time.Hour)
		s.settle()
		kept := s.stands(o.ID, broker.OperationRunning, 1, "")
		s.refused(s.checked(broker.Operation{
			Operation: kept.Operation, Target: kept.Target, TargetID: kept.TargetID, AllocationID: kept.AllocationID, ProjectID: kept.ProjectID,
			OrganisationID: kept.OrganisationID, NodeIDs: kept.NodeIDs, Safety: kept.Safety, Plan: kept.Plan,
		}, true), "operation_condition_denied")
		s.condition(broker.Place{}, `sku == "b200"`) // a narrower policy ends what runs
		s.settle()
		s.stands(o.ID, broker.OperationFailed, 1, "operation_condition_denied")
	})
}

// Each batch is judged as a request is: by the policy, the hour and the engine of the moment at which it begins. What
// holds it back is said, and the tasks before it have ended by themselves.
func TestABatchIsJudgedWhenItBegins(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *site, e *engine)
		code   string
	}{
		"a policy":  {func(s *site, _ *engine) { s.condition(broker.Place{}, `sku == "b200"`) }, "operation_condition_denied"},
		"an hour":   {func(s *site, _ *engine) { s.clock.Advance(2 * time.Hour) }, "operation_condition_denied"},
		"an engine": {func(_ *site, e *engine) { e.says = broker.Errorf(broker.Refused, broker.PolicyEngineDenied, "no") }, broker.PolicyEngineDenied},
		"its silence": {func(_ *site, e *engine) {
			e.says = broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "away")
		}, broker.PolicyEngineUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *site) {
				e := &engine{}
				s.records.Engine = e
				s.condition(broker.Place{}, "hour < "+s.db.Now().UTC().Add(time.Hour).Format("15"))
				s.tasks.does = func(*broker.Task) {}
				w := s.onLab()
				w.Batches = broker.OperationBatches{Canary: 1}
				o := s.begun(w)
				s.settle()
				s.tasks.does = func(k *broker.Task) {
					succeeds(k)
					c.change(s, e)
				}
				s.settle()
				if c.code == broker.PolicyEngineUnreachable {
					s.stands(o.ID, broker.OperationRunning, 1, "") // it waits for the engine
					s.clock.Advance(6 * time.Minute)
					s.settle()
				}
				kept := s.stands(o.ID, broker.OperationFailed, 1, c.code)
				if len(s.tasks.all) != 1 || s.tasks.all[0].Status != broker.TaskSucceeded || kept.Batch != 1 || !kept.HeldBack() {
					t.Errorf("%d tasks, batch %d: %+v", len(s.tasks.all), kept.Batch, s.tasks.all[0])
				}
				if !strings.Contains(kept.Message, "batch 2 of 2 did not begin") || !strings.Contains(kept.Failure(), "retry") {
					t.Errorf("%q, %q", kept.Message, kept.Failure())
				}
			})
		})
	}
}

// An engine that comes back lets the next batch begin.
func TestABatchWaitsForTheEngine(t *testing.T) {
	each(t, func(s *site) {
		e := &engine{}
		s.records.Engine = e
		w := s.onLab()
		w.Batches = broker.OperationBatches{Canary: 1}
		o := s.begun(w)
		s.tasks.does = func(k *broker.Task) {
			succeeds(k)
			e.says = broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "away")
		}
		s.settle()
		s.stands(o.ID, broker.OperationRunning, 1, "")
		e.says, s.tasks.does = nil, succeeds
		s.clock.Advance(time.Minute)
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
	})
}

// engine is a policy engine that says what it is told to say.
type engine struct {
	says  error
	asked []broker.OperationFacts
}

func (e *engine) Permit(_ context.Context, f broker.OperationFacts) error {
	e.asked = append(e.asked, f)
	return e.says
}

// The policy engine is asked when an operation is requested, before its tasks, and when it is tried again. What the
// policy denies, and what runs, it is not asked about.
func TestThePolicyEngineIsAskedBeforeAnythingBegins(t *testing.T) {
	each(t, func(s *site) {
		e := &engine{}
		s.records.Engine = e
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		asked := len(e.asked)
		if f := e.asked[asked-1]; asked == 0 || f.Operation != "demo.look" || f.Backend != "node_agent" || f.NodeCount != 2 || f.SKU != "h100" || f.Trigger != "tenant_request" {
			t.Errorf("%+v", e.asked)
		}
		s.settle()
		s.stands(o.ID, broker.OperationRunning, 1, "")
		if len(e.asked) != asked+1 || e.asked[asked].Backend != "node_agent" {
			t.Errorf("after the run began: %+v", e.asked[asked:])
		}
		e.says = broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "away")
		s.settle()
		s.stands(o.ID, broker.OperationRunning, 1, "")
		if len(e.asked) != asked+1 {
			t.Errorf("it is asked while the operation runs: %+v", e.asked[asked+1:])
		}
		other := s.onLab()
		other.Allocation = s.allocated("alc-3", "p-1", 1)
		_, err := s.begin(other)
		s.refused(err, broker.PolicyEngineUnreachable)

		e.says, asked = nil, len(e.asked)
		s.condition(broker.Place{}, "node_count > 1")
		_, err = s.begin(other)
		if s.refused(err, "operation_condition_denied"); len(e.asked) != asked {
			t.Errorf("it is asked about what the policy denies: %+v", e.asked[asked:])
		}
	})
}

// An engine that denies between the request and the tasks ends the operation before a node is asked for anything.
func TestAnEngineThatDeniesLateLetsNoTaskOut(t *testing.T) {
	each(t, func(s *site) {
		e := &engine{}
		s.records.Engine = e
		o := s.begun(s.onLab())
		e.says = broker.Errorf(broker.Refused, broker.PolicyEngineDenied, "no")
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, broker.PolicyEngineDenied)
		if len(s.tasks.all) != 0 {
			t.Errorf("tasks: %+v", s.tasks.all)
		}
		_, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "ada"}, "again")
		s.refused(err, broker.PolicyEngineDenied)
		e.says = nil
		_, err = s.records.Retry(s.Context(), failed, chain.Actor{Name: "ada"}, "again")
		s.ok(err)
	})
}
