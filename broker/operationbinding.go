package broker

import (
	"encoding/json"
	"strings"
)

// BoundOperation is an operation that runs by itself when an allocation begins or ends.
type BoundOperation struct {
	Operation string          `json:"operation"` // a definition with its version
	Inputs    json.RawMessage `json:"inputs,omitempty"`
}

// OperationBindings are the operations that run by themselves on allocations; nil: none does.
type OperationBindings struct {
	OnBegin *BoundOperation `json:"on_begin,omitempty"`
	OnEnd   *BoundOperation `json:"on_end,omitempty"`
}

// Of returns the operation of a trigger; nil: there is none.
func (b OperationBindings) Of(t OperationTrigger) *BoundOperation {
	if t == TriggerBegin {
		return b.OnBegin
	}
	return b.OnEnd
}

// Over returns the operations of a SKU's allocations in a project with some bindings. As in the policy of
// operations, the wider level decides: what the SKU names, no project replaces or takes away. A project
// names what the SKU leaves open.
func (b OperationBindings) Over(project OperationBindings) OperationBindings {
	if b.OnBegin == nil {
		b.OnBegin = project.OnBegin
	}
	if b.OnEnd == nil {
		b.OnEnd = project.OnEnd
	}
	return b
}

// Bound reports whether an allocation itself began the operation, because its SKU or project names it.
func (t OperationTrigger) Bound() bool { return t == TriggerBegin || t == TriggerEnd }

// NeedsAllocation is the status that an operation's allocation must have.
func (o Operation) NeedsAllocation() AllocationStatus {
	switch o.Trigger {
	case TriggerBegin:
		return AllocationProvisioning
	case TriggerEnd:
		return AllocationReleasing
	}
	return AllocationActive
}

// BoundOperationID is the id of the operation that a trigger begins on an allocation: there is one at most.
func BoundOperationID(allocationID string, t OperationTrigger) string {
	end := "-end"
	if t == TriggerBegin {
		end = "-begin"
	}
	return OperationPrefix + strings.TrimPrefix(allocationID, AllocationPrefix) + end
}
