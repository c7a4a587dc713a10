package turnovertest

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
)

// LetIn provisions a user, if the node accepts users.
func (b *Book) LetIn(id, allocation, tenant string, root bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.nodes[id]
	if m.Status != broker.Active || m.drain || m.denied || b.InRun != nil && b.InRun(id) != "" {
		return false
	}
	m.root = m.root || root
	m.Users = append(m.Users, broker.Occupant{
		ID: allocation, NodeID: id, Username: "u-" + allocation, Tenant: tenant, HadRoot: root,
		Since: b.Now(),
	})
	return true
}

// ForceRelease implements turnover.Nodes.
func (b *Book) ForceRelease(_ context.Context, id, runID, _ string, ends []string) ([]broker.Occupant, error) {
	leave, err := b.enter("ForceRelease")
	if err != nil {
		return nil, err
	}
	defer leave()
	live := b.nodes[id].live()
	if err := broker.OccupantsLive(b.nodes[id].Node, live, ends...); err != nil {
		return nil, err
	}
	b.force(runID, live)
	return live, nil
}

// force notes the allocations ended for billing, once for each run.
func (b *Book) force(runID string, live []broker.Occupant) {
	for _, m := range b.nodes {
		for i := range m.Users {
			if slices.ContainsFunc(live, func(a broker.Occupant) bool { return a.ID == m.Users[i].ID && a.NodeID == m.Users[i].NodeID }) {
				m.Users[i].ForcedBy = runID
			}
		}
	}
	for _, a := range live {
		if key := runID + "/" + a.ID; !slices.Contains(b.Forced, key) {
			b.Forced = append(b.Forced, key)
		}
	}
}

// Occupants implements turnover.Nodes.
func (b *Book) Occupants(_ context.Context, id string) ([]broker.Occupant, error) {
	leave, err := b.enter("Occupants")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(b.nodes[id].Users), nil
}

// RootSinceReimage implements turnover.Nodes.
func (b *Book) RootSinceReimage(_ context.Context, id string) (bool, error) {
	leave, err := b.enter("RootSinceReimage")
	if err != nil {
		return false, err
	}
	defer leave()
	return b.nodes[id].root, nil
}

// UnendedOperation implements turnover.Nodes.
func (b *Book) UnendedOperation(_ context.Context, id string) (string, error) {
	leave, err := b.enter("UnendedOperation")
	if err != nil {
		return "", err
	}
	defer leave()
	return b.nodes[id].Unended, nil
}

// live are the allocations whose user may be there.
func (m Machine) live() (out []broker.Occupant) {
	for _, a := range m.Users {
		if a.Live() {
			out = append(out, a)
		}
	}
	return out
}

// Live are the ids of the live allocations, as a request to end them names them.
func (m Machine) Live() (ids []string) {
	for _, a := range m.live() {
		ids = append(ids, a.ID)
	}
	return ids
}
