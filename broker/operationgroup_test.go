package broker

import (
	"fmt"
	"strings"
	"testing"
)

// The members of a group have its nodes in order, and it works on as many at once as its widest batch has.
func TestTheMembersOfAGroup(t *testing.T) {
	o := Operation{
		Target: TargetGroup, TargetID: "all", NodeIDs: []string{"n-1", "n-2", "n-3", "n-4", "n-5"},
		Members: []OperationMember{{AllocationID: "a-1", Nodes: 2, Succeeded: 1}, {AllocationID: "a-2", Nodes: 1, Skipped: 1, Code: "x"}, {AllocationID: "a-3", Nodes: 2}},
	}
	var parts []string
	for _, p := range o.Parts() {
		parts = append(parts, p.AllocationID+"="+strings.Join(p.NodeIDs, ","))
	}
	if got := strings.Join(parts, " "); got != "a-1=n-1,n-2 a-2=n-3 a-3=n-4,n-5" || o.Skipped() != 1 || o.Group() != "all" {
		t.Errorf("%s, %d skipped", got, o.Skipped())
	}
	if got := fmt.Sprint(o.Unbegun()); got != "[{a-1  2 0 0 0 } {a-2  1 0 0 0 } {a-3  2 0 0 0 }]" {
		t.Error(got)
	}
	for batches, want := range map[OperationBatches]int{{}: 3, {Canary: 1}: 3, {Size: 1}: 1, {Size: 2}: 2, {Canary: 2, Size: 3}: 2, {Canary: 9}: 3} {
		o.Batches = batches
		if got := o.Width(); got != want {
			t.Errorf("%+v: %d allocations at once, want %d", batches, got, want)
		}
	}
	if one := (Operation{Target: TargetAllocation, AllocationID: "a-1", NodeIDs: o.NodeIDs}); one.Width() != 1 || len(one.Parts()) != 1 || one.Parts()[0].AllocationID != "a-1" {
		t.Errorf("%+v", one.Parts())
	}
}

func TestASelectorOfAllocations(t *testing.T) {
	a := Allocation{ID: "alc-1", SKU: "h100", Site: "dc1", Labels: map[string]string{"tier": "gold", "sku": "b200"}}
	for text, want := range map[string]bool{
		"all": true, "alc-1": true, "alc-2, alc-1": true, "alc-2": false, "alc": false, "tier=gold": true, "tier=gold,site=dc1": true, "tier=gold,site=dc2": false,
		"team=": false, "sku=h100": true, "sku=b200": false, "status=active": false,
	} {
		s, err := ParseGroup(text)
		if err != nil || s.MatchesAllocation(a) != want {
			t.Errorf("%s: %v, %v", text, s.MatchesAllocation(a), err)
		}
	}
	for _, text := range []string{"", "alc-1,tier=gold", "=x", "all,"} {
		if _, err := ParseGroup(text); AsError(err).Code != "selector_invalid" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
