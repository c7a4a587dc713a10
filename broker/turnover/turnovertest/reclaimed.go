package turnovertest

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
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
	m.denied, m.by, m.wiped, m.shownAt, m.token = true, runID, false, time.Time{}, ""
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

// ShowFormerSystem lets the former system show its certificate, which keeps a node from use that
// tenants could be on.
func (b *Book) ShowFormerSystem(id string) {
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
	m.denied, m.token = true, ""
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
			m.token, m.drain, m.Silent, m.denied = "", false, false, false
			b.close(m, "node_reenrolled")
			m.Epoch++
			b.certify(m)
		}
	}
}

var _ onboarding.Nodes = ReimageNodes{}
