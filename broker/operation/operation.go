package operation

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// TaskType is the type of the task that carries a plan.
const TaskType = broker.OperationTask

// Work is the state of a run.
type Work struct {
	OperationID string   `json:"operation_id"`
	Attempt     int      `json:"attempt"`
	NodeIDs     []string `json:"node_ids"` // of the target, by id
	// Code and Message say why the tasks are withdrawn, or were never requested.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Batch is the present one, from 0. Ended has the code of each node whose task has ended; empty: it went well.
	Batch int               `json:"batch,omitempty"`
	Ended map[string]string `json:"ended,omitempty"`
	// BatchOver is when the tasks of the present batch had all ended; zero: not yet.
	BatchOver time.Time `json:"batch_over,omitzero"`
	// Lost are the allocations that are not the project's any more, or nodes that do not fit any more, and Skipped the nodes of
	// both that were asked for nothing.
	Lost    []string `json:"lost,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	// Of a group of nodes: Why has the codes of the lost, and Took are the nodes that the run has tried to take.
	Why  map[string]string `json:"why,omitempty"`
	Took []string          `json:"took,omitempty"`
	// Stopped says why no further batch begins; empty: it may.
	Stopped string `json:"stopped,omitempty"`
	// Told counts the steps that were announced, by node.
	Told map[string]string `json:"told,omitempty"`
}

// refuse notes a refusal. The first one stands.
func (s *Work) refuse(err *broker.Error) {
	if s.Code == "" {
		s.Code, s.Message = err.Code, taskcatalog.Clean(err.Message, 500)
	}
}

// Records is the port to the broker's records and to the nodes. A method may be called again with the
// same arguments, and then changes nothing more.
type Records interface {
	taskstage.Tasks

	// Operation reads an operation. Code: operation_not_found.
	Operation(ctx context.Context, id string) (broker.Operation, error)
	// Check holds an operation's target and plan against the records and the policy as they are now, of the
	// nodes those that are named. begins: they are about to get their tasks, and are judged as on a request. lost are
	// the members of a group that are left out, with the codes why: allocations that its project does not hold any more, and
	// nodes on which the operation could not begin. All others are judged. Codes: those of Fit.
	Check(ctx context.Context, o broker.Operation, nodes []string, begins bool) (lost map[string]string, err error)
	// Tasks are the tasks that a run asked a node for, with their results.
	Tasks(ctx context.Context, nodeID, runID string) ([]broker.Task, error)
	// Statement signs what the present attempt of an operation did and how it ends, and the receipt of a
	// tenant's operation.
	Statement(ctx context.Context, o broker.Operation, end broker.EndOperation) (file, receipt []byte, err error)
}

// Place is what is known of a node of a target.
type Place struct {
	Node broker.Node
	// Claim is the allocation that holds the node, and Live are the tenants' users on the node.
	Claim string
	Live  []broker.Occupant
	// Run is the run that has the node; empty: none.
	Run string
}

// Fit says whether an operation may begin on a part of its target; nil: it may. at has nodes of the part;
// allocation is the part's. Unless the operation begins on them, it only counts who holds the nodes, and whether
// they are there. A message to a tenant names no node.
// Codes: operation_target_gone, operation_not_idle, operation_not_drained, allocation_live, node_in_run, node_status,
// task_type_unsupported, agent_outdated, capability_missing.
func Fit(o broker.Operation, part broker.OperationPart, allocation broker.Allocation, at []Place, begins bool) error {
	no := func(code, format string, args ...any) error {
		return broker.Errorf(broker.Refused, code, "cannot carry out "+o.Operation+": "+format, args...)
	}
	name := func(n broker.Node) string { return "node " + n.ID }
	if part.AllocationID != "" {
		name = func(broker.Node) string { return "a node of allocation " + part.AllocationID }
		switch {
		case allocation.ProjectID != o.ProjectID || allocation.Status != o.NeedsAllocation() ||
			!slices.Equal(allocation.NodeIDs, part.NodeIDs):
			return no(broker.OperationTargetGone, "allocation %s is not %s, or not the project's", part.AllocationID,
				o.NeedsAllocation())
		case o.Safety == definition.SafetyIdle:
			return no("operation_not_idle", "it needs nodes that no allocation holds, and its target is an allocation")
		}
	}
	for _, p := range at {
		n := p.Node
		switch {
		case p.Claim != part.AllocationID:
			if part.AllocationID != "" {
				return no(broker.OperationTargetGone, "allocation %s does not hold its nodes any more", part.AllocationID)
			}
			return no("allocation_live", "allocation %s holds node %s (its project begins operations on its allocations)", p.Claim, n.ID)
		case part.AllocationID == "" && len(p.Live) > 0:
			return no("allocation_live", "%s is on node %s (wait until nobody is)", p.Live[0].Describe(), n.ID)
		case o.NodeGroup() && p.Run != o.RunID && (p.Run != "" || !begins): // what begins takes its nodes afterwards
			return no("node_in_run", "node %s is not the operation's: run %s has it", n.ID, cmp.Or(p.Run, "of nobody"))
		case slices.Contains([]broker.NodeStatus{broker.Deleted, broker.Removing, broker.BootstrapIssued}, n.Status):
			return no("node_status", "%s is %s", name(n), n.Status)
		case !begins: // what the steps change is no reason to end them
			continue
		case o.Safety == definition.SafetyDrained && !slices.Contains(outOfService, n.Status):
			return no("operation_not_drained", "%s is %s, and it needs nodes that are drained (hostler node drain NODE)", name(n), n.Status)
		case !slices.Contains(n.TaskTypes, TaskType+"@1"):
			return no("task_type_unsupported", "the agent of %s carries out no operations (it is of an earlier release)", name(n))
		}
		reported := n.Capabilities[taskcatalog.CapabilityOperationForm]
		if form, step, argument := o.Plan.NeedsForm(); !taskcatalog.UnderstandsForm(reported, form) {
			return no(broker.AgentOutdated, "the agent of %s does not understand argument %s of step %s: it reports operation form %q, and "+
				"that needs %d (a platform operator updates the agent to the broker's own release: hostler rollout start; then try again)", name(n),
				argument, step, taskcatalog.Clean(reported, 16), form)
		}
		for _, key := range sortedKeys(o.Requires) {
			v := n.Capabilities[key]
			if key == taskcatalog.GPUCount {
				if least, err := strconv.Atoi(o.Requires[key][0]); err != nil || !taskcatalog.EnoughGPUs(v, least) {
					return no(string(taskcatalog.CodeCapabilityMissing), "%s reports %q GPUs, and it needs %s or more", name(n),
						taskcatalog.Clean(v, 64), o.Requires[key][0])
				}
				continue
			}
			if !slices.Contains(o.Requires[key], v) {
				return no(string(taskcatalog.CodeCapabilityMissing), "%s reports %s %q, and it needs one of %q", name(n), key,
					taskcatalog.Clean(v, 64), o.Requires[key])
			}
		}
	}
	return nil
}

// outOfService are the statuses of a drained node.
var outOfService = []broker.NodeStatus{broker.Draining, broker.Retired, broker.Quarantined}
