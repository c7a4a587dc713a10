package store

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// forgetEnrolment takes from a node that has never been let in what an earlier
// enrolment said: its machine may have been deployed anew, or be another one. What a
// run judges is then what the enrolment that it lets in has said. What a person
// accepted stays. A node that was ever let in is never enrolling again, and keeps its
// baseline whatever enrols: it is what its next turnover is compared with.
func (t *tx) forgetEnrolment(ctx context.Context, n *broker.Node) error {
	if n.Status != broker.Enrolling || n.Epoch == 0 {
		return nil
	}
	if n.BaselineDigest != "" {
		e := entry(nodeActor(n.ID), "node.baseline", n.ID)
		e.Reason, e.Before, e.After = "it enrols again", small("baseline", n.BaselineDigest), small("baseline", "")
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
	return t.putDevices(ctx, nodeActor(n.ID), n.ID, "it enrols again", before, after)
}
