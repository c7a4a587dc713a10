package turnovertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// Retire implements turnover.Nodes.
func (b *Book) Retire(_ context.Context, id, _, reason string) error {
	leave, err := b.enter("Retire")
	if err != nil {
		return err
	}
	defer leave()
	return b.nodes[id].move(broker.Retired, reason)
}

// CutOff implements turnover.Nodes: agents of the former system do and report nothing more.
func (b *Book) CutOff(_ context.Context, id, runID, _ string) error {
	leave, err := b.enter("CutOff")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	if m.by == runID && !m.wiped {
		return nil
	}
	m.cut, m.by, m.wiped, m.shownAt, m.token = true, runID, false, time.Time{}, ""
	b.close(m, "node_released")
	return nil
}

// close ends the node's open tasks.
func (b *Book) close(m *Machine, code taskcatalog.Code) {
	for _, k := range b.tasks {
		if k.NodeID == m.ID && !k.Status.Ended() {
			k.Status, k.Outcome, k.Code, k.EndedAt = broker.TaskFailed, taskcatalog.OutcomeFailed, code, b.Now()
		}
	}
}

// Wiped implements turnover.Nodes.
func (b *Book) Wiped(_ context.Context, id, runID string) error {
	leave, err := b.enter("Wiped")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	if m.by != runID || m.wiped {
		return nil
	}
	m.wiped = true
	for i := range m.Users {
		if m.Users[i].Live() {
			m.Users[i].EndedAt = b.Now()
		}
	}
	return nil
}

// PreviousSystem implements turnover.Nodes.
func (b *Book) PreviousSystem(_ context.Context, id, runID string) (time.Time, string, error) {
	leave, err := b.enter("PreviousSystem")
	if err != nil {
		return time.Time{}, "", err
	}
	defer leave()
	if b.nodes[id].by != runID {
		return time.Time{}, "", nil
	}
	return b.nodes[id].shownAt, "10.0.0.9", nil
}

// Haunt lets the former system show its certificate, which keeps a node from use that tenants
// could be on.
func (b *Book) Haunt(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.nodes[id]
	if !m.wiped {
		return
	}
	m.shownAt = b.Now()
	if m.Status == broker.Active || m.Status == broker.Offline {
		m.Status, m.StatusReason, m.TurnoverOwed = broker.Quarantined, "previous_os_alive", true
	}
}

// Remove implements turnover.Nodes.
func (b *Book) Remove(_ context.Context, id, _, reason string) error {
	leave, err := b.enter("Remove")
	if err != nil {
		return err
	}
	defer leave()
	if b.nodes[id].Status == broker.Deleted {
		return nil
	}
	return b.nodes[id].move(broker.Removing, reason)
}

// Deleted implements turnover.Nodes.
func (b *Book) Deleted(_ context.Context, id, _, reason string) error {
	leave, err := b.enter("Deleted")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	if err := m.move(broker.Deleted, reason); err != nil {
		return err
	}
	m.cut, m.token = true, ""
	b.close(m, "node_deleted")
	return nil
}

// ForgetSecrets implements turnover.Nodes.
func (b *Book) ForgetSecrets(_ context.Context, id string) error {
	leave, err := b.enter("ForgetSecrets")
	if err != nil {
		return err
	}
	defer leave()
	b.nodes[id].forgot = true
	return nil
}

// Forgotten reports whether the secrets of a node were removed.
func (b *Book) Forgotten(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[id].forgot
}

const tokenLine = "# enrol token "

// Boot lets the agent enrol whose machine has this user-data.
func (b *Book) Boot(userData []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, token, has := strings.Cut(strings.TrimSpace(string(userData)), tokenLine)
	for _, m := range b.nodes {
		if has && m.token == token && m.Status != broker.Deleted {
			m.token, m.drain, m.Silent, m.cut = "", false, false, false
			b.close(m, "node_reenrolled")
			m.Epoch++
			b.certify(m)
		}
	}
}

// Redeployed is onboarding.Nodes over the book, for runs that redeploy a node's machine.
type Redeployed struct{ *Book }

var _ onboarding.Nodes = Redeployed{}

// Bound implements onboarding.Nodes.
func (r Redeployed) Bound(context.Context, string, string, string) (string, error) { return "", nil }

// MadeBy implements onboarding.Nodes.
func (r Redeployed) MadeBy(context.Context, string) (string, error) { return "", nil }

// Prepare implements onboarding.Nodes.
func (r Redeployed) Prepare(_ context.Context, made onboarding.NewNode) (string, error) {
	leave, err := r.enter("Prepare")
	if err != nil {
		return "", err
	}
	defer leave()
	return made.NodeID, r.outOfService(made.NodeID)
}

func (r Redeployed) outOfService(id string) error {
	if m := r.nodes[id]; m.Status != broker.Retired || !m.TurnoverOwed {
		return broker.Errorf(broker.Refused, "node_status", "node %s is %s", id, m.Status)
	}
	return nil
}

// Bundle implements onboarding.Nodes.
func (r Redeployed) Bundle(_ context.Context, id string, _ onboarding.BundleFacts) (onboarding.Bundle, error) {
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
func (r Redeployed) Activate(_ context.Context, id string) (bool, string, error) {
	leave, err := r.enter("Activate")
	if err != nil {
		return false, "", err
	}
	defer leave()
	return true, "", r.outOfService(id)
}

// ExtendToken implements onboarding.Nodes.
func (r Redeployed) ExtendToken(context.Context, string, time.Time, string) error { return nil }

// Remove implements onboarding.Nodes: the node's token becomes void.
func (r Redeployed) Remove(_ context.Context, runID, _ string) (string, error) {
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
func (r Redeployed) Renew(context.Context, string, string) (string, error) { return "", nil }

// Quarantine implements onboarding.Nodes.
func (r Redeployed) Quarantine(ctx context.Context, id, reason string) error {
	return r.Book.Quarantine(ctx, id, reason)
}

// Reseed implements onboarding.Nodes.
func (r Redeployed) Reseed(context.Context, string, string, taskcatalog.MAASMachineToken, time.Duration) (bool, error) {
	return true, nil
}

// Diagnose implements onboarding.Nodes.
func (r Redeployed) Diagnose(ctx context.Context, key, id, runID string) (string, error) {
	k, err := r.Ask(ctx, asking.Task{Key: key, NodeID: id, Type: "node.diagnostics", RunID: runID})
	return k.ID, err
}

// InUse implements onboarding.Nodes.
func (r Redeployed) InUse(_ context.Context, id, _ string) (string, error) {
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
