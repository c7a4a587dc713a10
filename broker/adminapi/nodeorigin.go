package adminapi

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/sshseed"
)

// origin gathers the data about a node's machine beyond the node's record. A site or SKU without a
// record adds nothing.
func (a *API) origin(ctx context.Context, n broker.Node) (o api.NodeOrigin, err error) {
	o.OnboardingMode, o.AccessMethod = "manual", "node_agent"
	parts, err := a.c.DB.Devices(ctx, n.ID)
	if err != nil {
		return o, err
	}
	if len(parts) > 0 {
		o.Devices = deviceResources(parts)
	}
	if o.Handout, err = a.handout(ctx, n); err != nil {
		return o, err
	}
	if o.Serial, err = a.chassis(ctx, n.ID); err != nil {
		return o, err
	}
	deployUser := ""
	if n.Site != "" {
		s, err := a.c.DB.Site(ctx, n.Site)
		if err == nil {
			o.SiteID, o.RegionCode, deployUser = s.ID, s.RegionCode, s.DeployUser
		} else if broker.AsError(err).Kind != broker.NotFound {
			return o, err
		}
	}
	if n.SKU != "" {
		k, err := a.c.DB.SKU(ctx, n.SKU)
		if err == nil {
			o.GPUsTotal = k.GPUCount
		} else if broker.AsError(err).Kind != broker.NotFound {
			return o, err
		}
	}
	seen, _, err := a.c.DB.MAASState(ctx, n.ID)
	if err != nil {
		return o, err
	}
	o.Host = seen.Host
	if o.OnboardingID, err = a.c.DB.MadeByRun(ctx, n.ID); err != nil || o.OnboardingID == "" {
		return o, err
	}
	r, err := a.c.DB.Run(ctx, o.OnboardingID)
	if err != nil {
		return o, err
	}
	var s onboarding.Onboarding
	_ = json.Unmarshal(r.State, &s) // a state of another version yields less
	o.OnboardingMode, o.IPMIIP, o.PXEMAC = "maas", s.IPMIIP, s.PXEMAC
	if r.Kind == onboarding.AdoptionKind {
		o.OnboardingMode = "adopted"
	} else {
		o.Port, o.SSHUsername = sshseed.Port, deployUser
	}
	if o.Host == "" && len(s.Seen.IPs) > 0 {
		o.Host = s.Seen.IPs[0]
	}
	return o, nil
}
