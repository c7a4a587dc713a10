package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// MachineToken is a machine's own token as MAAS has it now. false: MAAS has not made a token, or
// the machine is not deployed, or is no longer deployed for that run.
func MachineToken(ctx context.Context, s *maas.Sites, site broker.Site, runID string, c Claim) (taskcatalog.MAASMachineToken, bool, error) {
	region, err := s.Region(ctx, site)
	if err != nil {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	m, err := region.Machine(ctx, c.SystemID)
	if err != nil || m.Status != maas.Deployed || !c.on(m, runID) {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	t, has, err := region.Token(ctx, m)
	return t.MAASMachineToken, has, err
}

// rotated refuses a redeployed machine that still has its former token: the former tenant, who may
// know the token, could have MAAS take the machine back.
func (at *place) rotated(t maas.MachineToken) error {
	rc := at.state.Reclaim
	switch {
	case rc == nil || rc.Token == "":
		return nil
	case rc.Token == (maas.OwnToken{Key: t.TokenKey, Secret: t.TokenSecret, Consumer: t.ConsumerKey}).Digest(at.SystemID):
		return chain.Fail(ambiguity, "MAAS gave machine %s the token that it had before its release: the former tenant may know the token",
			at.displayName()).
			With("maas_token_not_rotated", map[string]any{"system_id": at.SystemID}).
			Next("find out why MAAS kept the machine's token (which belongs to the owner), then restart-clean")
	}
	rc.TokenDiffers = true
	return nil
}
