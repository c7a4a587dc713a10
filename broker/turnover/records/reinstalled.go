package records

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/baseline"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Reinstalled implements turnover.Nodes.
func (n *Nodes) Reinstalled(ctx context.Context, nodeID, runID, taskID string) ([]string, error) {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	k, err := n.DB.Task(ctx, taskID)
	if err != nil {
		return nil, err
	}
	var result taskcatalog.ValidateCleanResult
	if err := taskcatalog.DecodeStrict(k.Result, &result); err != nil || result.Baseline == nil || k.NodeID != nodeID ||
		k.NodeEpoch != node.Epoch {
		return nil, broker.Errorf(broker.Refused, "baseline_not_candidate",
			"cannot use the baseline of task %s for node %s: the task has no baseline of the node's present enrolment", taskID, nodeID)
	}
	now := *result.Baseline
	if node.BaselineDigest != "" {
		raw, err := n.DB.Baseline(ctx, node.BaselineDigest)
		if err != nil {
			return nil, err
		}
		if pki.Digest(raw) != node.BaselineDigest {
			return nil, broker.Errorf(broker.Refused, "baseline_untrusted",
				"cannot use the baseline of node %s: its content does not match its digest (the database may have been changed)", nodeID)
		}
		var was taskcatalog.Baseline
		if err := taskcatalog.DecodeStrict(raw, &was); err != nil {
			return nil, err
		}
		var lines []baseline.Line
		if now, lines = baseline.Installed(&was, result.Baseline); len(lines) > 0 {
			var unlike []string
			for _, l := range lines {
				unlike = append(unlike, strings.TrimSpace(l.Op+" "+l.Kind+" "+l.What))
			}
			return unlike, nil
		}
	}
	raw, err := taskcatalog.Encode(now)
	if err != nil {
		return nil, err
	}
	if err := n.DB.RecordDisks(ctx, broker.System, nodeID, node.EnrolledAt, "reinstalled by run "+runID); err != nil {
		return nil, err
	}
	return nil, n.DB.SaveBaseline(ctx, broker.System, nodeID, pki.Digest(raw), raw,
		"reinstalled by run "+runID+": only values differ that each installation generates")
}
