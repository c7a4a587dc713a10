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
func (n *Nodes) Reinstalled(ctx context.Context, nodeID, runID, taskID string, chosen bool) ([]string, error) {
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
	now, why, lines, err := n.compareReinstalled(ctx, node, result.Baseline, chosen)
	if err != nil || len(lines) > 0 {
		var unlike []string
		for _, l := range lines {
			unlike = append(unlike, strings.TrimSpace(l.Op+" "+l.Kind+" "+l.What))
		}
		return unlike, err
	}
	raw, err := taskcatalog.Encode(now)
	if err != nil {
		return nil, err
	}
	if err := n.DB.RecordDisks(ctx, broker.System, nodeID, node.EnrolledAt, "reinstalled by run "+runID); err != nil {
		return nil, err
	}
	return nil, n.DB.SaveBaseline(ctx, broker.System, nodeID, pki.Digest(raw), raw, "reinstalled by run "+runID+": "+why)
}

// The reasons for which the baseline of a fresh system is put in force.
const (
	firstBaseline = "the node had no baseline"
	sameSystem    = "only values differ that each installation generates"
	otherImage    = "another image is installed, and the hardware is the same"
)

// compareReinstalled compares a fresh system with the node's baseline. After an installation of another
// image it compares the hardware with that baseline, and all else with the last baseline of the image, if
// there is one. The image is another one if the baseline's image is known to be another, or is not known and
// the run was asked for its image (chosen).
func (n *Nodes) compareReinstalled(
	ctx context.Context, node broker.Node, is *taskcatalog.Baseline, chosen bool,
) (now taskcatalog.Baseline, why string, unlike []baseline.Line, err error) {
	if node.BaselineDigest == "" {
		return *is, firstBaseline, nil, nil
	}
	image, err := n.DB.NodeImage(ctx, node.ID)
	if err != nil {
		return now, "", nil, err
	}
	was, err := n.baselineOf(ctx, node.ID, node.BaselineDigest)
	if err != nil {
		return now, "", nil, err
	}
	if image.Name == "" || image.BaselineOf == image.Name || image.BaselineOf == "" && !chosen {
		now, unlike = baseline.Installed(was, is)
		return now, sameSystem, unlike, nil
	}
	now, unlike = baseline.OtherImage(was, is)
	if len(unlike) > 0 || image.BaselineDigest == "" {
		return now, otherImage, unlike, nil
	}
	same, err := n.baselineOf(ctx, node.ID, image.BaselineDigest)
	if err != nil {
		return now, "", nil, err
	}
	same.Inventory = is.Inventory // compared with the newer baseline
	_, unlike = baseline.Installed(same, is)
	return now, otherImage, unlike, nil
}

// baselineOf reads a baseline of a node. Code: baseline_untrusted.
func (n *Nodes) baselineOf(ctx context.Context, nodeID, digest string) (*taskcatalog.Baseline, error) {
	raw, err := n.DB.Baseline(ctx, digest)
	if err != nil {
		return nil, err
	}
	if pki.Digest(raw) != digest {
		return nil, broker.Errorf(broker.Refused, "baseline_untrusted",
			"cannot use the baseline of node %s: its content does not match its digest (the database may have been changed)", nodeID)
	}
	var b taskcatalog.Baseline
	return &b, taskcatalog.DecodeStrict(raw, &b)
}
