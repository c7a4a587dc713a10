package broker

import "testing"

// No project takes away or replaces what a SKU names, whatever the project names.
func TestTheSKUsOperationStands(t *testing.T) {
	sku, project := &BoundOperation{Operation: "sku@v1"}, &BoundOperation{Operation: "project@v1"}
	for _, trigger := range []OperationTrigger{TriggerBegin, TriggerEnd} {
		for _, of := range []*BoundOperation{nil, sku} {
			for _, its := range []*BoundOperation{nil, project} {
				want := of
				if of == nil {
					want = its
				}
				if got := (OperationBindings{OnBegin: of, OnEnd: of}).Over(OperationBindings{OnBegin: its, OnEnd: its}).Of(trigger); got != want {
					t.Errorf("%s: of %v and %v it is %v", trigger, of, its, got)
				}
			}
		}
	}
	if got := (OperationBindings{OnEnd: sku}).Over(OperationBindings{OnBegin: project}); got.OnBegin != project || got.OnEnd != sku {
		t.Errorf("%+v", got)
	}
}
