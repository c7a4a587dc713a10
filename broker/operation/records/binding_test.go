package records

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

// Only what can run by itself on an allocation is bound.
func TestOnlyWhatCanRunByItselfIsBound(t *testing.T) {
	each(t, func(s *site) {
		ship := func(status broker.OperationDefinitionStatus, change ...string) {
			t.Helper()
			d := parsed(s, change...)
			content, err := d.Encode()
			s.ok(err)
			s.ok(s.db.ShipOperationDefinitions(s.Context(), []broker.OperationDefinition{
				{Operation: d.Operation, Version: d.Version, Summary: d.Summary, Digest: d.Digest(), Content: content},
			}))
			if status != broker.DefinitionActive {
				_, err = s.db.MoveOperationDefinition(s.Context(), ada, d.ID(), status, "", "old")
				s.ok(err)
			}
		}
		ship(broker.DefinitionDeprecated, "demo.look", "demo.old")
		ship(broker.DefinitionActive, "demo.look", "demo.node", "[node, allocation, group]", "[node]")
		ship(broker.DefinitionActive, "demo.look", "demo.idle", "safety: forced", "safety: idle")
		ship(broker.DefinitionActive, "demo.look", "demo.drained", "safety: forced", "safety: drained")
		ship(broker.DefinitionActive, "demo.look", "demo.slow", "deadline_seconds: 600", "deadline_seconds: 901")
		ship(broker.DefinitionActive, "demo.look", "demo.long", "deadline_seconds: 600", "deadline_seconds: 3601")
		at := broker.Place{OrganisationID: "org-1", ProjectID: "p-1"}
		check := func(at broker.Place, trigger broker.OperationTrigger, b broker.BoundOperation, code string) {
			t.Helper()
			if _, err := s.records.CheckBinding(s.Context(), at, "", trigger, b); code != "" {
				s.refused(err, code)
			} else {
				s.ok(err)
			}
		}
		for _, trigger := range []broker.OperationTrigger{broker.TriggerBegin, broker.TriggerEnd} {
			check(at, trigger, broker.BoundOperation{Operation: "demo.look@v1"}, "")
			check(broker.Place{}, trigger, broker.BoundOperation{Operation: "demo.look@v1"}, "")
			check(at, trigger, broker.BoundOperation{Operation: "demo.look@v1", Inputs: json.RawMessage(`{"a": 1}`)}, "operation_inputs")
			check(at, trigger, broker.BoundOperation{Operation: "demo.look@v1", Inputs: json.RawMessage(`"` + strings.Repeat("a", 8<<10) + `"`)}, "operation_inputs")
			check(at, trigger, broker.BoundOperation{Operation: "demo.none@v1"}, "operation_definition_not_found")
			check(at, trigger, broker.BoundOperation{Operation: "demo.old@v1"}, "operation_definition_deprecated")
			check(at, trigger, broker.BoundOperation{Operation: "demo.node@v1"}, "operation_target_kind")
			check(at, trigger, broker.BoundOperation{Operation: "demo.idle@v1"}, "operation_not_bindable")
			check(at, trigger, broker.BoundOperation{Operation: "demo.drained@v1"}, "operation_not_bindable")
		}
		check(at, broker.TriggerBegin, broker.BoundOperation{Operation: "demo.long@v1"}, "")
		check(at, broker.TriggerEnd, broker.BoundOperation{Operation: "demo.long@v1"}, "operation_not_bindable")
		check(broker.Place{}, broker.TriggerEnd, broker.BoundOperation{Operation: "demo.long@v1"}, "operation_not_bindable")
		check(at, broker.TriggerEnd, broker.BoundOperation{Operation: "demo.slow@v1"}, "operation_not_bindable")
		check(broker.Place{}, broker.TriggerEnd, broker.BoundOperation{Operation: "demo.slow@v1"}, "")
		no := false
		_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{Place: at, Operation: "demo.look", Overlay: broker.OperationOverlay{Enabled: &no}}, false, "")
		s.ok(err)
		check(at, broker.TriggerBegin, broker.BoundOperation{Operation: "demo.look@v1"}, "operation_denied")
		check(broker.Place{}, broker.TriggerBegin, broker.BoundOperation{Operation: "demo.look@v1"}, "")
	})
}

// A binding is refused where a condition denies it whatever the allocation is, and names the conditions that need to know
// the allocation.
func TestConditionsAreJudgedWhenAnOperationIsBound(t *testing.T) {
	each(t, func(s *site) {
		project := broker.Place{OrganisationID: "org-1", ProjectID: "p-1"}
		for _, row := range []struct {
			at                    broker.Place
			sku, condition, later string
			refused               bool
		}{
			{project, "", `trigger == "allocation_release"`, "", false},
			{project, "", `trigger == "tenant_request"`, "", true},
			{project, "", `target_kind == "node" && labels.tier == "gold"`, "", true},
			{project, "", `artifact_sources[3] == "s3:models"`, "", true},
			{project, "", `labels.tier == "gold"`, "condition rule of the project's policy for demo.look", false},
			{project, "", `sku == "h100"`, "condition rule of the project's policy for demo.look", false},
			{broker.Place{}, "h100", `sku == "h100"`, "", false},
			{broker.Place{}, "h100", `sku == "a100" && hour < 8`, "", true},
			{broker.Place{}, "h100", `hour < 8`, "condition rule of the global policy for demo.look", false},
		} {
			s.condition(row.at, row.condition)
			later, err := s.records.CheckBinding(s.Context(), row.at, row.sku, broker.TriggerEnd, broker.BoundOperation{Operation: "demo.look@v1"})
			if row.refused {
				s.refused(err, "operation_condition_denied")
			} else if s.ok(err); strings.Join(later, ", ") != row.later {
				t.Errorf("%s: later %q, want %q", row.condition, later, row.later)
			}
			if row.at == project { // it leaves nothing for the rows of the platform
				s.ok(s.db.RemoveOperationPolicy(s.Context(), ada, project, "demo.look", "test"))
			}
		}
	})
}

// An operation of a begin or an end needs its allocation in that status, and there is one at most.
func TestABoundOperationHasItsOwnStatusAndId(t *testing.T) {
	each(t, func(s *site) {
		begin, end := s.onLab(), s.onLab()
		begin.Trigger, end.Trigger = broker.TriggerBegin, broker.TriggerEnd
		_, err := s.begin(begin) // the allocation is active
		s.refused(err, broker.OperationTargetGone)
		_, err = s.begin(end)
		s.refused(err, broker.OperationTargetGone)
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		if s.lab, err = s.db.Allocation(s.Context(), "alc-1"); err != nil {
			t.Fatal(err)
		}
		end.Allocation = s.lab
		o := s.begun(end)
		s.settle()
		if kept := s.stands("op-1-end", broker.OperationSucceeded, 1, ""); kept.ID != o.ID || kept.Trigger != broker.TriggerEnd {
			t.Errorf("%+v", kept)
		}
		if _, err := s.begin(end); err == nil {
			t.Error("an end has two operations")
		}
		_, err = s.begin(s.onLab())
		s.refused(err, broker.OperationTargetGone) // a member begins none on what is released
	})
}
