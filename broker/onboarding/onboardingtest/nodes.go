package onboardingtest

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
)

// Bound implements onboarding.Nodes.
func (b *Book) Bound(_ context.Context, site, systemID, runID string) (string, error) {
	leave, err := b.enter("Bound")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool {
		return e.Site == site && e.MAASSystemID == systemID && e.Status != broker.Deleted && e.run != runID
	})
	if e == nil {
		return "", nil
	}
	return e.ID, nil
}

// InUse implements onboarding.Nodes.
func (b *Book) InUse(_ context.Context, nodeID, runID string) (string, error) {
	leave, err := b.enter("InUse")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return "", nil
	}
	if e.turnover != "" && e.turnover == runID {
		return "", nil
	}
	return onboarding.Occupied(e.Node), nil
}

// MadeBy implements onboarding.Nodes.
func (b *Book) MadeBy(_ context.Context, nodeID string) (string, error) {
	leave, err := b.enter("MadeBy")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return e.run, nil
	}
	return "", notFound(nodeID)
}

// Prepare implements onboarding.Nodes.
func (b *Book) Prepare(_ context.Context, n onboarding.NewNode) (string, error) {
	leave, err := b.enter("Prepare")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return (e.run == n.RunID || e.turnover == n.RunID) && e.Status != broker.Deleted }); e != nil {
		e.MAASSystemID = n.MAASSystemID
		return e.ID, nil
	}
	if e := b.find(func(e *entry) bool {
		return e.Site == n.Site && e.Hostname == n.Hostname && e.Status != broker.Deleted
	}); e != nil {
		return "", broker.Errorf(broker.Refused, "hostname_taken", "cannot make node %s: node %s has that name", n.Hostname, e.ID)
	}
	e := &entry{run: n.RunID, Node: broker.Node{
		ID: b.id(), Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Status: broker.Enrolling, MAASSystemID: n.MAASSystemID,
	}}
	b.nodes = append(b.nodes, e)
	return e.ID, nil
}

// Installed implements onboarding.Nodes.
func (b *Book) Installed(_ context.Context, i onboarding.Installation) error {
	leave, err := b.enter("Installed")
	if err != nil {
		return err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == i.NodeID })
	if e == nil {
		return notFound(i.NodeID)
	}
	e.installed = i
	return nil
}

// Image is the image of a node's present enrolment; empty: not known.
func (b *Book) Image(nodeID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil || e.installed.Epoch != e.Epoch {
		return ""
	}
	return e.installed.Image
}

// Node implements onboarding.Nodes.
func (b *Book) Node(_ context.Context, nodeID string) (broker.Node, error) {
	leave, err := b.enter("Node")
	if err != nil {
		return broker.Node{}, err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return e.Node, nil
	}
	return broker.Node{}, notFound(nodeID)
}

// Activate implements onboarding.Nodes.
func (b *Book) Activate(_ context.Context, nodeID string) (bool, string, error) {
	leave, err := b.enter("Activate")
	if err != nil {
		return false, "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	switch {
	case e == nil:
		return false, "", notFound(nodeID)
	case e.Epoch == 0:
		return false, "its agent has not enrolled", nil
	case b.Unlike != nil && b.Unlike(nodeID) != "":
		return false, "", broker.Errorf(broker.Refused, onboarding.CodeHardwareMismatch, "node %s: %s", nodeID, b.Unlike(nodeID))
	case e.Status == broker.Quarantined:
		return false, "a person must let it in again", nil
	case e.Status == broker.Retired && e.turnover != "":
		return true, "", nil // the turnover's run activates the node
	case e.Status != broker.Enrolling && e.Status != broker.Active:
		return false, "", broker.Errorf(broker.Refused, "transition_refused", "cannot move node %s from %s to active", nodeID, e.Status)
	}
	e.Status = broker.Active
	return true, "", nil
}

// Remove implements onboarding.Nodes.
func (b *Book) Remove(_ context.Context, runID, _ string) (string, error) {
	leave, err := b.enter("Remove")
	if err != nil {
		return "", err
	}
	defer leave()
	if e := b.find(func(e *entry) bool { return e.turnover == runID }); e != nil {
		e.token = ""
		return e.ID, nil
	}
	e := b.find(func(e *entry) bool { return e.run == runID && e.Status != broker.Deleted })
	switch {
	case e == nil:
		return "", nil
	case e.Epoch > 0:
		return e.ID, nil
	}
	e.Status, e.token = broker.Deleted, ""
	return "", nil
}

// Renew implements onboarding.Nodes.
func (b *Book) Renew(_ context.Context, runID, reason string) (string, error) {
	leave, err := b.enter("Renew")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.run == runID && e.Status != broker.Deleted })
	switch {
	case e == nil || e.Status != broker.Quarantined:
		return "", nil
	case !e.own:
		return "node " + e.ID + " is quarantined, and a person must let it in again", nil
	}
	e.Status, e.StatusReason, e.own = broker.Enrolling, reason, false
	return "", nil
}

// Quarantine implements onboarding.Nodes.
func (b *Book) Quarantine(_ context.Context, nodeID, reason string) error {
	leave, err := b.enter("Quarantine")
	if err != nil {
		return err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return notFound(nodeID)
	}
	switch e.Status {
	case broker.Retired:
		if e.turnover != "" {
			e.Status, e.StatusReason = broker.Quarantined, reason
		}
	case broker.Enrolling, broker.Active, broker.Offline: // other statuses are out of use already, or on their way
		e.own = e.Status == broker.Enrolling
		e.Status, e.StatusReason = broker.Quarantined, reason
	}
	return nil
}
