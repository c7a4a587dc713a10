package store

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// forgetEnrolment deletes the reports of an earlier enrolment from a node that was never let in:
// its machine may have been deployed anew, or be another machine. A run then judges only the
// reports of the enrolment that it lets in. Values accepted by a person stay. A node that was ever
// let in never has status enrolling again, and keeps its baseline whatever enrols: the next
// turnover compares with that baseline.
func (t *tx) forgetEnrolment(ctx context.Context, n *broker.Node) error {
	if n.Status != broker.Enrolling || n.Epoch == 0 {
		return nil
	}
	if n.BaselineDigest != "" {
		e := entry(nodeActor(n.ID), "node.baseline", n.ID)
		e.Reason, e.Before, e.After = "the node enrols again", small("baseline", n.BaselineDigest), small("baseline", "")
		n.BaselineDigest = ""
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET baseline_digest = '' WHERE id = $1`, n.ID); err != nil {
			return err
		}
		if err := t.audit(ctx, e); err != nil {
			return err
		}
	}
	if _, err := t.ExecContext(ctx, `DELETE FROM node_facts WHERE node_id = $1`, n.ID); err != nil {
		return err
	}
	if err := t.forgetChassis(ctx, n.ID); err != nil {
		return err
	}
	before, err := devices(ctx, t, n.ID)
	if err != nil {
		return err
	}
	var after []broker.Device
	for _, d := range before {
		switch d.State {
		case broker.DeviceUnexpected:
			continue
		case broker.DeviceFound, broker.DeviceMissing:
			d.State, d.Since = broker.DeviceExpected, t.now
		}
		after = append(after, d)
	}
	return t.putDevices(ctx, nodeActor(n.ID), n.ID, "the node enrols again", before, after)
}
