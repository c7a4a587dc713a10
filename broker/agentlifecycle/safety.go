package agentlifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Safety tells who and what speaks against work on a node.
type Safety interface {
	// Live are the allocations whose user may be on the node. Live waits for the end of open
	// transactions on the node, so that their allocations are included.
	Live(ctx context.Context, nodeID string) ([]broker.Occupant, error)
	// Unfit are the reasons against handing out the node, apart from this package's runs and from
	// tenants.
	Unfit(ctx context.Context, nodeID string) ([]broker.Reason, error)
}

// applySafety applies the run's safety policy, now that no new tenant is let in, and notes the
// node's state before any work.
func (c *Chains) applySafety(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	live, err := c.Nodes.Live(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	switch {
	case len(live) == 0 || s.Safety == broker.Forced:
	case s.Safety == broker.AfterDrain:
		return chain.Again(30*time.Second, "waiting for the end of allocation %s on node %s", named(live), n.ID)
	default:
		return taskstage.Records(busy(n, live))
	}
	if err := c.begin(ctx, r, n); err != nil {
		return err
	}
	r.Note(map[string]any{"safety_policy": s.Safety, "allocations": len(live), "was": s.Was}, "node %s may be worked on: %s", n.ID,
		wordsOf(s.Safety, live))
	return nil
}

func wordsOf(p broker.SafetyPolicy, live []broker.Occupant) string {
	if len(live) == 0 {
		return "no tenant is on the node"
	}
	return "by " + string(p) + ", with allocation " + named(live) + " on it"
}

// begin notes the node's state, and that a delivery is under way.
func (c *Chains) begin(ctx context.Context, r *run, n broker.Node) error {
	s := &r.State
	if s.BegunAt.IsZero() {
		unfit, err := c.Nodes.Unfit(ctx, s.NodeID)
		if err != nil {
			return taskstage.Records(err)
		}
		for _, u := range unfit {
			s.Unfit = append(s.Unfit, u.Code)
		}
		s.Was, s.From, s.Epoch, s.BegunAt = n.Status, n.AgentVersion, n.Epoch, r.Now
	}
	return taskstage.Records(c.Nodes.RecordDelivery(ctx, s.delivery(r.ID, Running, "", 0)))
}

func (s *Work) delivery(runID, result, reason string, seconds int64) Delivery {
	return Delivery{NodeID: s.NodeID, RunID: runID, Mode: s.Mode, At: s.BegunAt, Result: result, Reason: reason, Seconds: seconds}
}

// withdraw withdraws tasks that no agent has taken yet, and waits for taken tasks other than
// probes: the node ends those itself, and until then nobody else may work on the node.
func (c *Chains) withdraw(ctx context.Context, r *run) error {
	tasks, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, "run "+r.ID+" was cancelled")
	if err != nil {
		return taskstage.Records(err)
	}
	for _, k := range tasks {
		if !k.Status.Ended() && k.Class != taskcatalog.ClassProbe {
			return chain.AgainFor(silent, soon, "task %s (%s) is %s: waiting for the outcome from node %s", k.ID, k.Type, k.Status,
				r.State.NodeID)
		}
	}
	for _, k := range tasks {
		if err := c.recordOutcome(ctx, r, k); err != nil {
			return err
		}
	}
	return nil
}

// recordOutcome records the outcome of an update whose end the run had not heard when it was
// cancelled.
func (c *Chains) recordOutcome(ctx context.Context, r *run, k broker.Task) error {
	s := &r.State
	if k.Type != "node.self_update" || !k.Status.Ended() || k.Attempt == 0 || slices.Contains(s.Tasks, k.ID) {
		return nil
	}
	told, known, err := c.recordDelivery(ctx, r, k)
	switch {
	case err != nil:
		return err
	case known:
		r.Note(told, "node %s had already ended task %s (%s to %s): %s", s.NodeID, k.ID, told["from"], told["to"], told["outcome"])
	case k.Status == broker.TaskCanceled:
		r.Note(map[string]any{"task_id": k.ID}, "node %s has not begun task %s", s.NodeID, k.ID)
	default:
		r.Note(map[string]any{"task_id": k.ID, "code": k.Code}, "node %s did not report the outcome of task %s: %s", s.NodeID, k.ID, k.Code)
		err = taskstage.Records(c.Nodes.RecordDelivery(ctx, s.delivery(r.ID, "failed", string(k.Code), 0)))
	}
	if told["outcome"] == taskcatalog.UpdateConfirmed { // the run's own event says that it was cancelled
		r.Publish(chain.Message{Type: broker.AgentUpdatedEvent, Subject: "node/" + s.NodeID, Data: told})
	}
	s.Tasks = append(s.Tasks, k.ID)
	return err
}
