package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// rotateIdentity asks the keeper of the node's identity to change the key. The evidence is signed
// after the change, so by the new key.
func rotateIdentity(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	r.Step("rotate_identity", 0, 1)
	result, err := r.Host.Rotate(ctx, r.Task.TaskID)
	if err != nil {
		return nil, report, err
	}
	return result, report, nil
}

// rotationMade covers a crash between the change and its result.
func rotationMade(h *host.Host, t *taskcatalog.Task) (any, taskcatalog.Report, bool) {
	result, made := h.Rotated(t.TaskID)
	return result, taskcatalog.Report{}, made
}

// probeRotation runs only if rotationMade found no change.
func probeRotation(context.Context, *host.Host, *taskcatalog.Task) string {
	return "the node keeps its old key"
}
