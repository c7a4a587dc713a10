package turnover

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// diagnose has the agent collect its diagnostics if a run fails because of a broken GPU, or
// because a redeployed machine does not enrol although its new agent has come. The run does not
// wait for the task.
func (c *Chains) diagnose(ctx context.Context, r *run, f chain.Failure) map[string]any {
	class := broker.FailureClass(f.Class)
	if !class.Diagnosed() {
		return nil
	}
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil || class == broker.AgentEnrollmentFailure && n.Epoch <= r.State.Machine.Epoch {
		return nil
	}
	k, err := c.Nodes.Request(ctx, taskstage.Task{
		Key: r.Key() + "/diagnostics", NodeID: n.ID, Type: "node.diagnostics",
		Params: taskcatalog.DiagnosticsParams{}, RunID: r.ID,
	})
	if err != nil {
		return nil
	}
	return map[string]any{"diagnostics_task": k.ID}
}
