package turnovertest

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// ReimageNodes is onboarding.Nodes over the book, for runs that redeploy a node's machine.
type ReimageNodes struct{ *Book }

// Bound implements onboarding.Nodes.
func (r ReimageNodes) Bound(context.Context, string, string, string) (string, error) { return "", nil }

// MadeBy implements onboarding.Nodes.
func (r ReimageNodes) MadeBy(context.Context, string) (string, error) { return "", nil }

// Prepare implements onboarding.Nodes.
func (r ReimageNodes) Prepare(_ context.Context, made onboarding.NewNode) (string, error) {
	leave, err := r.enter("Prepare")
	if err != nil {
		return "", err
	}
	defer leave()
	return made.NodeID, r.outOfService(made.NodeID)
}

func (r ReimageNodes) outOfService(id string) error {
	if m := r.nodes[id]; m.Status != broker.Retired || !m.TurnoverOwed {
		return broker.Errorf(broker.Refused, "node_status", "node %s is %s", id, m.Status)
	}
	return nil
}

// Installed implements onboarding.Nodes.
func (r ReimageNodes) Installed(_ context.Context, i onboarding.Installation) error {
	leave, err := r.enter("Installed")
	if err != nil {
		return err
	}
	defer leave()
	r.nodes[i.NodeID].Image = i.Image
	return nil
}

// Bundle implements onboarding.Nodes.
func (r ReimageNodes) Bundle(_ context.Context, id string, _ onboarding.BundleFacts) (onboarding.Bundle, error) {
	leave, err := r.enter("Bundle")
	if err != nil {
		return onboarding.Bundle{}, err
	}
	defer leave()
	m := r.nodes[id]
	if m.token == "" {
		r.tokens++
		m.token = fmt.Sprintf("%s-%d", id, r.tokens)
	}
	return onboarding.Bundle{UserData: []byte("#cloud-config\n" + tokenLine + m.token + "\n"), Digest: "sha256:bundle", Epoch: m.Epoch}, nil
}

// Activate implements onboarding.Nodes.
func (r ReimageNodes) Activate(_ context.Context, id string) (bool, string, error) {
	leave, err := r.enter("Activate")
	if err != nil {
		return false, "", err
	}
	defer leave()
	return true, "", r.outOfService(id)
}

// ExtendToken implements onboarding.Nodes.
func (r ReimageNodes) ExtendToken(context.Context, string, time.Time, string) error { return nil }

// Remove implements onboarding.Nodes: the node's token becomes void.
func (r ReimageNodes) Remove(_ context.Context, runID, _ string) (string, error) {
	leave, err := r.enter("Remove")
	if err != nil {
		return "", err
	}
	defer leave()
	for id, m := range r.nodes {
		if r.InRun != nil && r.InRun(id) == runID {
			m.token = ""
			return id, nil
		}
	}
	return "kept", nil
}

// Renew implements onboarding.Nodes.
func (r ReimageNodes) Renew(context.Context, string, string) (string, error) { return "", nil }

// Quarantine implements onboarding.Nodes.
func (r ReimageNodes) Quarantine(ctx context.Context, id, reason string) error {
	return r.Book.Quarantine(ctx, id, reason)
}

// Reseed implements onboarding.Nodes.
func (r ReimageNodes) Reseed(context.Context, string, string, taskcatalog.MAASMachineToken, time.Duration) (bool, error) {
	return true, nil
}

// Diagnose implements onboarding.Nodes.
func (r ReimageNodes) Diagnose(ctx context.Context, key, id, runID string) (string, error) {
	k, err := r.Request(ctx, taskstage.Task{Key: key, NodeID: id, Type: "node.diagnostics", RunID: runID})
	return k.ID, err
}

// InUse implements onboarding.Nodes.
func (r ReimageNodes) InUse(_ context.Context, id, _ string) (string, error) {
	leave, err := r.enter("InUse")
	if err != nil {
		return "", err
	}
	defer leave()
	switch s := r.nodes[id].Status; s {
	case broker.Draining, broker.Retired, broker.Quarantined:
		return "", nil
	default:
		return "the node is " + string(s), nil
	}
}
