package turnovertest

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
)

// conflict is the last time two parties had the node's present identity.
func (m *Machine) conflict() time.Time {
	if m.ConflictAt.Before(m.IdentitySince) {
		return time.Time{}
	}
	return m.ConflictAt
}

// Conflict lets two parties be seen with a node's identity, which keeps the node from use. A node
// that is shut out altogether has no conflict.
func (b *Book) Conflict(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.nodes[id]
	if m.denied || m.Status == broker.Removing || m.Status == broker.Deleted {
		return false
	}
	m.ConflictAt = b.Now()
	switch m.Status {
	case broker.Active, broker.Offline, broker.Draining, broker.Retired:
		m.Status, m.StatusReason = broker.Quarantined, "identity_conflict"
	}
	return true
}

// IdentityConflict implements turnover.Nodes.
func (b *Book) IdentityConflict(_ context.Context, id string) (time.Time, error) {
	leave, err := b.enter("IdentityConflict")
	if err != nil {
		return time.Time{}, err
	}
	defer leave()
	return b.nodes[id].conflict(), nil
}
