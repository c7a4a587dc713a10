package operation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
)

// leave takes the nodes of members out of a group: of allocations that its project does not hold any more, and nodes that do
// not fit any more. A node that was asked for nothing is skipped, and the task of another one is withdrawn.
func (c *Chains) leave(ctx context.Context, r *run, o broker.Operation, lost map[string]string) error {
	s := &r.State
	for _, p := range o.Parts() {
		if _, is := lost[p.Member()]; !is {
			continue
		}
		for _, node := range p.NodeIDs {
			if s.over(node) {
				continue
			}
			all, err := c.Records.Withdraw(ctx, node, r.ID, lostMember(p)+" any more")
			if err != nil {
				return taskstage.Records(err)
			}
			if len(all) == 0 {
				s.Skipped = append(slices.Clip(s.Skipped), node)
			}
		}
	}
	if s.lose(o, lost); len(s.rest(o)) == 0 {
		what := "the project holds none of the group's allocations any more"
		if o.NodeGroup() {
			what = "the operation can begin on none of the group's nodes any more (its members have the codes why)"
		}
		s.refuse(broker.Errorf(broker.Refused, broker.OperationTargetGone, "%s", what))
	}
	return nil
}

// lose notes lost members. Those of a project are found lost again at each look; a node of the platform stays lost.
func (s *Work) lose(o broker.Operation, lost map[string]string) {
	if !o.NodeGroup() {
		s.Lost = sortedKeys(lost)
		return
	}
	if len(lost) == 0 {
		return
	}
	why := maps.Clone(lost)
	maps.Copy(why, s.Why) // the first code stands
	s.Why, s.Lost = why, sortedKeys(why)
}

func lostMember(p broker.OperationPart) string {
	if p.AllocationID == "" {
		return "the operation does not fit node " + p.Member()
	}
	return "allocation " + p.AllocationID + " is not active"
}

// take makes the nodes of the batches so far the run's, so that nobody else gets them meanwhile. Who takes the place of a
// skipped node is judged and taken as well. What somebody else has by then is found out at the next look, before a node is
// asked for anything.
func (c *Chains) take(ctx context.Context, r *run, o broker.Operation) error {
	s := &r.State
	nodes := slices.DeleteFunc(s.under(o), func(node string) bool { return slices.Contains(s.Took, node) })
	if !o.NodeGroup() || len(nodes) == 0 {
		return nil
	}
	if err := c.fits(ctx, r, o, nodes, true, r.EnteredAt); err != nil || s.Code != "" {
		return err
	}
	nodes = slices.DeleteFunc(nodes, s.over)
	s.Took = append(slices.Clip(s.Took), nodes...)
	r.Apply(broker.BatchOperation{ID: o.ID, Batch: s.Batch + 1, Members: s.members(o, s.Ended), Take: nodes})
	return chain.Again(0, "%d nodes are taken", len(nodes))
}

// advancing makes work that stores what became of the members of a group, and frees their nodes for other operations
// as soon as nothing more happens there: a node may be another project's then.
func (c *Chains) advancing(do func(context.Context, *run, broker.Operation) error) func(context.Context, *run, broker.Operation) error {
	return func(ctx context.Context, r *run, o broker.Operation) error {
		s := &r.State
		was := Work{Ended: s.Ended, Skipped: s.Skipped}
		err := do(ctx, r, o)
		if o.Target != broker.TargetGroup || s.Code != "" { // the end stores the rest
			return err
		}
		var free []string
		for _, node := range o.NodeIDs {
			if s.over(node) && !was.over(node) {
				free = append(free, node)
			}
		}
		if len(free) > 0 {
			r.Apply(broker.BatchOperation{ID: o.ID, Batch: s.Batch + 1, Members: s.members(o, s.Ended), Free: free})
		}
		return err
	}
}

// partsOf has the part of each node.
func partsOf(o broker.Operation) map[string]broker.OperationPart {
	of := map[string]broker.OperationPart{}
	for _, p := range o.Parts() {
		for _, node := range p.NodeIDs {
			of[node] = p
		}
	}
	return of
}

// left notes how the withdrawn task of a node ended, unless it has not. One that ended well all the same is a success.
func (c *Chains) left(ctx context.Context, r *run, o broker.Operation, node string) (ended bool, err error) {
	all, err := c.Records.Tasks(ctx, node, r.ID)
	if err != nil {
		return false, taskstage.Records(err)
	}
	for _, k := range all { // there is one
		if !k.Status.Ended() {
			return false, nil
		}
		code, _ := judge(o, k, Rows(o, k))
		if code != "" {
			code = broker.OperationTargetGone
		}
		r.State.note(node, code)
	}
	return true, nil
}

// over reports whether nothing more happens on a node: its task has ended, or it is skipped.
func (s *Work) over(node string) bool {
	_, ended := s.Ended[node]
	return ended || slices.Contains(s.Skipped, node)
}

// rest are the nodes that are not skipped. They make the batches: a skipped canary is no canary, and the next node is.
func (s *Work) rest(o broker.Operation) []string {
	if len(s.Skipped) == 0 {
		return o.NodeIDs
	}
	return slices.DeleteFunc(slices.Clone(o.NodeIDs), func(node string) bool { return slices.Contains(s.Skipped, node) })
}

// members are the members of a group with what became of their nodes; ended has the code of each whose task has ended.
func (s *Work) members(o broker.Operation, ended map[string]string) []broker.OperationMember {
	all := o.Unbegun()
	for i, p := range o.Parts() {
		if len(all) == 0 { // the target is no group
			return nil
		}
		m := &all[i]
		for _, node := range p.NodeIDs {
			code, over := ended[node]
			switch {
			case slices.Contains(s.Skipped, node):
				m.Skipped, code = m.Skipped+1, cmp.Or(s.Why[p.Member()], broker.OperationTargetGone)
			case !over:
				continue
			case code == "":
				m.Succeeded++
			default:
				m.Failed++
			}
			if m.Code == "" {
				m.Code = code
			}
		}
	}
	return all
}
