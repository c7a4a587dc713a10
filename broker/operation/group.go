package operation

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskstage"
)

// leave takes the nodes of allocations out of a group that its project does not hold any more. A node that was asked
// for nothing is skipped, and the task of another one is withdrawn.
func (c *Chains) leave(ctx context.Context, r *run, o broker.Operation, lost []string) error {
	s := &r.State
	for _, p := range o.Parts() {
		if !slices.Contains(lost, p.AllocationID) {
			continue
		}
		for _, node := range p.NodeIDs {
			if s.over(node) {
				continue
			}
			all, err := c.Records.Withdraw(ctx, node, r.ID, "allocation "+p.AllocationID+" is not active any more")
			if err != nil {
				return taskstage.Records(err)
			}
			if len(all) == 0 {
				s.Skipped = append(slices.Clip(s.Skipped), node)
			}
		}
	}
	s.Lost = lost
	if len(s.rest(o)) == 0 {
		s.refuse(broker.Errorf(broker.Refused, broker.OperationTargetGone, "the project holds none of the group's allocations any more"))
	}
	return nil
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
				m.Skipped, code = m.Skipped+1, broker.OperationTargetGone
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
