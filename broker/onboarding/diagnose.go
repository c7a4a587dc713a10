package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Diagnoses are collected by the agents of nodes.
type Diagnoses interface {
	// Diagnose has an enrolled node's agent run node.diagnostics for a run, once for each key, and
	// does not wait for the result.
	Diagnose(ctx context.Context, key, nodeID, runID string) (taskID string, err error)
}

// diagnose has the agent collect its diagnostics where a run fails at enrolment although the agent
// of this run's machine has enrolled. An agent that has not enrolled cannot be asked, and the agent
// of the previously installed system does not count.
func (c *Chains) diagnose(ctx context.Context, r *run, f chain.Failure) map[string]any {
	if !broker.FailureClass(f.Class).Diagnosed() || r.State.NodeID == "" {
		return nil
	}
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil || n.Epoch <= r.State.Epoch {
		return nil
	}
	task, err := c.Nodes.Diagnose(ctx, r.Key()+"/diagnostics", n.ID, r.ID)
	if err != nil {
		return nil
	}
	return map[string]any{"diagnostics_task": task}
}
