package api

import "encoding/json"

// BoundOperation is an operation that runs by itself when an allocation begins or ends.
type BoundOperation struct {
	Operation string          `json:"operation" maxLength:"70" doc:"an active definition with its version, such as allocation.runtime.provision@v1; empty: none"`
	Inputs    json.RawMessage `json:"inputs,omitempty" doc:"an object, held against the definition's schema"`
}

// ProjectBindings changes which operations run by themselves on the allocations of a project. What is left out stays.
type ProjectBindings struct {
	OnBegin *BoundOperation `json:"on_begin,omitempty" doc:"runs before an allocation becomes active; an empty operation: none does"`
	OnEnd   *BoundOperation `json:"on_end,omitempty" doc:"runs first when an allocation is released; an empty operation: none does"`
	Reason  string          `json:"reason,omitempty" maxLength:"500"`
}
