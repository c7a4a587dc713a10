package turnovertest

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/turnover"
)

func (m *Machine) move(to broker.NodeStatus, reason string) error {
	if m.Status == to {
		return nil
	}
	if err := broker.Transition(m.Node, to, broker.OwnerTurnover); err != nil {
		return err
	}
	m.Status, m.StatusReason = to, reason
	return nil
}

// Disable implements turnover.Nodes.
func (b *Book) Disable(_ context.Context, id, runID, reason string, from broker.NodeStatus, ends []string) ([]broker.Occupant, error) {
	leave, err := b.enter("Disable")
	if err != nil {
		return nil, err
	}
	defer leave()
	m := b.nodes[id]
	if from != "" && m.Status != from {
		return nil, broker.Errorf(broker.Refused, "node_moved", "node %s should still be %s, and is %s", id, from, m.Status)
	}
	live := m.live()
	if err := broker.OccupantsLive(m.Node, live, ends...); err != nil {
		return nil, err
	}
	if m.Status != broker.Retired {
		if err := m.move(broker.Draining, reason); err != nil {
			return nil, err
		}
	}
	m.TurnoverOwed = true
	b.force(runID, live)
	return live, nil
}

// Quarantine implements turnover.Nodes.
func (b *Book) Quarantine(_ context.Context, id, reason string) error {
	leave, err := b.enter("Quarantine")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	switch m.Status {
	case broker.Active, broker.Offline, broker.Draining, broker.Retired, broker.Quarantined:
	default:
		return nil // the node is out of use already
	}
	if err := m.move(broker.Quarantined, reason); err != nil {
		return err
	}
	m.TurnoverOwed = true
	return nil
}

// Enable implements turnover.Nodes.
func (b *Book) Enable(_ context.Context, id, runID, certificateID string, lifts turnover.Lifts) error {
	leave, err := b.enter("Enable")
	if err != nil {
		return err
	}
	defer leave()
	m := b.nodes[id]
	if v, ok := b.owed[certificateID]; !ok || b.of[certificateID] != runID || !v.MeetsPolicy || b.epoch[certificateID] != m.Epoch {
		return broker.Errorf(broker.Refused, "certificate_falls_short", "certificate %q does not let node %s in", certificateID, id)
	}
	if !m.TurnoverOwed && (m.Status == broker.Active || m.Status == broker.Offline || m.Status == broker.Draining) {
		return nil // the node was enabled, and the answer was lost; it may be silent or drained since
	}
	if err := broker.OccupantsLive(m.Node, m.live()); err != nil {
		return err
	}
	if m.conflict().After(lifts.Conflicts) {
		return broker.Errorf(broker.Refused, "kept_out_by_conflict", "two holders used the identity of node %s", id)
	}
	if m.Status == broker.Quarantined && m.ByPerson && !lifts.Person {
		return broker.Errorf(broker.Refused, "kept_out_by_person", "a person has quarantined node %s", id)
	}
	owed := m.TurnoverOwed
	m.TurnoverOwed = false
	if err := m.move(broker.Active, "turned over"); err != nil {
		m.TurnoverOwed = owed
		return err
	}
	m.Users, m.ByPerson = nil, false
	return nil
}
