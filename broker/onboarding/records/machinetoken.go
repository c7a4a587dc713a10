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

// maasPatience limits how long a node's request waits for MAAS.
const maasPatience = 15 * time.Second

// MachineTokens asks MAAS for the own tokens of machines that are nodes.
type MachineTokens struct {
	DB    *store.DB
	Sites *maas.Sites
}

// Of returns the token of a node's machine as JSON. false: the site's MAAS has no token, is not
// known, or cannot be asked now. A machine id that a person wrote on a node's record is no proof:
// with another machine's token the node could undo that other machine's deployment. So Of returns a token
// only if MAAS and the mark of the node's run show that the machine was deployed for the node and
// still is.
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

// claim returns the claim of the run that deployed a node's machine last: a reimage, or the
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
