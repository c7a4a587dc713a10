package onboard

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
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
	made, err := m.DB.MadeByRun(ctx, node.ID)
	if err != nil || made == "" {
		return nil, false
	}
	run, err := m.DB.Run(ctx, made)
	if err != nil || run.Kind != maas.OnboardingKind {
		return nil, false
	}
	var state maas.Onboarding
	if err := json.Unmarshal(run.State, &state); err != nil || state.Claim == nil || state.Claim.NodeID != node.ID || state.Claim.SystemID != node.MAASSystemID {
		return nil, false
	}
	site, err := m.DB.Site(ctx, node.Site)
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, maasPatience)
	defer cancel()
	token, has, err := m.Sites.MachineToken(ctx, site, made, *state.Claim)
	if err != nil || !has {
		return nil, false
	}
	if _, err := token.Rack(); err != nil {
		return nil, false
	}
	secret, err := json.Marshal(token)
	return secret, err == nil
}
