package records

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// maasPatience bounds what a node's request waits for MAAS.
const maasPatience = 15 * time.Second

// MachineTokens asks MAAS for the own tokens of nodes that are its machines.
type MachineTokens struct {
	DB    *store.DB
	Sites *maas.Sites
}

// Of is the token of a node's machine, as JSON; false: its site's MAAS has none, is
// not known, or cannot be asked just now. That a person wrote a machine's id on a
// node's record is no proof: with another machine's token its node could undo that
// one's deployment. So only a node whose machine was deployed for it, and is so still,
// by MAAS's word and the mark of its run, has one here.
func (m *MachineTokens) Of(ctx context.Context, task broker.Task) ([]byte, bool) {
	node, err := m.DB.Node(ctx, task.NodeID)
	if err != nil || node.Site == "" || node.MAASSystemID == "" {
		return nil, false
	}
	deployed, claim, err := m.claim(ctx, node.ID)
	if err != nil || claim == nil || claim.NodeID != node.ID || claim.SystemID != node.MAASSystemID {
		return nil, false
	}
	site, err := m.DB.Site(ctx, node.Site)
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, maasPatience)
	defer cancel()
	token, has, err := onboarding.MachineToken(ctx, m.Sites, site, deployed, *claim)
	if err != nil || !has {
		return nil, false
	}
	if _, err := token.Rack(); err != nil {
		return nil, false
	}
	secret, err := json.Marshal(token)
	return secret, err == nil
}

// claim is that of the run which deployed a node's machine last: a reimage, or the
// onboarding that made the node; nil: there is none.
func (m *MachineTokens) claim(ctx context.Context, nodeID string) (runID string, claim *onboarding.Claim, err error) {
	if runID, err = m.DB.MadeByRun(ctx, nodeID); err != nil {
		return "", nil, err
	}
	if r, had, err := m.DB.LastRelease(ctx, nodeID); err != nil {
		return "", nil, err
	} else if had {
		runID = r.RunID
	}
	if runID == "" {
		return "", nil, nil
	}
	run, err := m.DB.Run(ctx, runID)
	if err != nil {
		return "", nil, err
	}
	switch run.Kind {
	case onboarding.Kind:
		var state onboarding.Onboarding
		err = json.Unmarshal(run.State, &state)
		claim = state.Claim
	case turnover.Reimage.Kind():
		var state turnover.Turnover
		err = json.Unmarshal(run.State, &state)
		claim = state.Machine.Claim
	}
	return runID, claim, err
}
