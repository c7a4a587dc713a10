package records

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Passed is a node that a group's selector names and that the operation cannot begin on.
type Passed struct {
	Node          broker.Node
	Code, Message string
}

func (w Order) pass(o *broker.Operation, n broker.Node, err error) Passed {
	e := broker.AsError(err)
	_, why, _ := strings.Cut(e.Message, ": ") // without what the operation is
	p := Passed{Node: n, Code: e.Code, Message: why}
	if w.Passed != nil {
		w.Passed(p)
	}
	if o.PassedOver == nil {
		o.PassedOver = map[string]string{}
	}
	o.PassedOver[n.ID] = p.Code
	return p
}

// namedNodes are the nodes that a group's selector names at this moment, by id. Code: operation_too_large.
func (r *Records) namedNodes(ctx context.Context, w Order) (all []broker.Node, err error) {
	f := store.NodeFilter{Sites: w.Group.Sites, Limit: broker.MostOperationNodes}
	for more := true; more; more = f.After != "" {
		var page []broker.Node
		if page, f.After, err = r.DB.ListNodes(ctx, f); err != nil {
			return nil, err
		}
		for _, n := range page {
			if w.Group.Selector.Matches(n) {
				all = append(all, n)
			}
		}
		if len(all) > broker.MostOperationNodes {
			return nil, w.noGroup("operation_too_large", "it has more than %d nodes (name fewer)", broker.MostOperationNodes)
		}
	}
	slices.SortFunc(all, func(a, b broker.Node) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// fitting are the nodes of a group on which the operation can begin as far as is known before its plan, by id. first is one
// that is passed over.
func (r *Records) fitting(ctx context.Context, o *broker.Operation, w Order) (all []broker.Node, first *Passed, err error) {
	named, err := r.namedNodes(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range named {
		_, err := r.fit(ctx, *o, broker.OperationPart{NodeIDs: []string{n.ID}}, []string{n.ID}, true)
		switch e := broker.AsError(err); {
		case err == nil:
			all = append(all, n)
		case e.Kind != broker.Refused && e.Kind != broker.NotFound:
			return nil, nil, err
		default:
			p := w.pass(o, n, err)
			first = cmp.Or(first, &p)
		}
	}
	return all, first, nil
}

func (w Order) noGroup(code, format string, args ...any) error {
	return broker.Errorf(broker.Refused, code, "cannot carry out %s on group %s: %s", w.Definition.ID(), w.Group.Selector, fmt.Sprintf(format, args...))
}

// passOver takes the nodes out of a group that do not fit the plan. Code: operation_group_empty.
func (r *Records) passOver(ctx context.Context, o *broker.Operation, w Order, lost map[string]string) error {
	var first *Passed
	for _, n := range w.nodes {
		if _, is := lost[n.ID]; !is {
			continue
		}
		_, err := r.fit(ctx, *o, broker.OperationPart{NodeIDs: []string{n.ID}}, []string{n.ID}, true)
		if err == nil { // it fits by now, and is not looked at again
			err = broker.Errorf(broker.Refused, lost[n.ID], "cannot carry out %s: it changed at the same moment", o.Operation)
		}
		p := w.pass(o, n, err)
		first = cmp.Or(first, &p)
	}
	is := func(id string) bool { return lost[id] != "" }
	o.NodeIDs = slices.DeleteFunc(o.NodeIDs, is)
	o.Members = slices.DeleteFunc(o.Members, func(m broker.OperationMember) bool { return is(m.NodeID) })
	if len(o.NodeIDs) == 0 {
		return w.noGroup("operation_group_empty", "it can begin on none of the nodes; of node %s: %s", first.Node.ID, first.Message)
	}
	return nil
}

// groupNodes makes the nodes of a group the target of an operation. Codes: operation_group_empty, operation_group_mixed,
// operation_too_large.
func (r *Records) groupNodes(ctx context.Context, o *broker.Operation, w Order) ([]broker.Node, error) {
	o.Target, o.TargetID, o.NodeIDs = broker.TargetGroup, w.Group.Selector.String(), nil
	all, first, err := r.fitting(ctx, o, w)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0 && first == nil:
		return nil, w.noGroup("operation_group_empty", "no node matches (hostler node list)")
	case len(all) == 0:
		return nil, w.noGroup("operation_group_empty", "it can begin on none of the nodes; of node %s: %s", first.Node.ID, first.Message)
	}
	for _, key := range []string{"site", "sku"} {
		values := map[string]bool{}
		for _, n := range all {
			values[cmp.Or(map[string]string{"site": n.Site, "sku": n.SKU}[key], "none")] = true
		}
		if len(values) > 1 {
			return nil, w.noGroup("operation_group_mixed", "its nodes differ in %s: %s (add %s=… to the group, and run the operation once for each)", key,
				strings.Join(slices.Sorted(maps.Keys(values)), ", "), key)
		}
	}
	o.Site = all[0].Site
	for _, n := range all {
		o.NodeIDs = append(o.NodeIDs, n.ID)
		o.Members = append(o.Members, broker.OperationMember{NodeID: n.ID, Nodes: 1})
	}
	return all, nil
}
