package records

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Group is a set of allocations of a project, or of nodes of the platform, which a selector names.
type Group struct {
	Selector broker.Selector
	Sites    []string // where they may be; nil: anywhere
}

// members are the allocations of a group at this moment, by id. Codes: operation_group_empty,
// operation_group_mixed, operation_too_large, allocation_not_found.
func (r *Records) members(ctx context.Context, p broker.Project, g Group) (all []broker.Allocation, err error) {
	if refs := g.Selector.Refs(); refs != nil {
		all, err = r.named(ctx, p, g, refs)
	} else {
		all, err = r.matching(ctx, p, g)
	}
	if err != nil {
		return nil, err
	}
	no := func(code, format string, args ...any) error {
		return broker.Errorf(broker.Refused, code, "cannot carry out an operation on group %s: %s", g.Selector, fmt.Sprintf(format, args...))
	}
	if len(all) == 0 {
		return nil, no("operation_group_empty", "the project has no active allocation that matches (hostler allocation list)")
	}
	if len(all) > broker.MostOperationMembers {
		return nil, no("operation_too_large", "it has more than %d allocations (name fewer)", broker.MostOperationMembers)
	}
	for key, of := range map[string]func(broker.Allocation) string{
		"site": func(a broker.Allocation) string { return a.Site }, "sku": func(a broker.Allocation) string { return a.SKU },
	} {
		values := map[string]bool{}
		for _, a := range all {
			values[of(a)] = true
		}
		if len(values) > 1 {
			return nil, no("operation_group_mixed", "its allocations differ in %s: %s (add %s=… to the group, and run the operation once for each)", key,
				strings.Join(slices.Sorted(maps.Keys(values)), ", "), key)
		}
	}
	slices.SortFunc(all, func(a, b broker.Allocation) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// named are the allocations of a list. Another project's does not exist. Code: allocation_not_found.
func (r *Records) named(ctx context.Context, p broker.Project, g Group, ids []string) (all []broker.Allocation, err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids[:min(len(ids), broker.MostOperationMembers+1)] {
		a, err := r.DB.ProjectAllocation(ctx, p.ID, id)
		if err == nil && g.Sites != nil && !slices.Contains(g.Sites, a.Site) {
			err = broker.AllocationNotFound(id)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// matching are the active allocations that a selector matches, and at most one more than a group may have.
func (r *Records) matching(ctx context.Context, p broker.Project, g Group) (all []broker.Allocation, err error) {
	f := store.AllocationFilter{
		ProjectID: p.ID, Statuses: []broker.AllocationStatus{broker.AllocationActive}, Sites: g.Sites,
		Limit: broker.MostOperationMembers + 1,
	}
	for {
		page, next, err := r.DB.Allocations(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if g.Selector.MatchesAllocation(a) {
				all = append(all, a)
			}
		}
		if next == "" || len(all) > broker.MostOperationMembers {
			return all, nil
		}
		f.After = next
	}
}
