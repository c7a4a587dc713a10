package adminapi

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/sshseed"
)

// describe adds to a node's read model what only the answer about a single node has. A site without
// a record adds nothing.
func (a *API) describe(ctx context.Context, n broker.Node, to *api.Node) (err error) {
	to.OnboardingMode, to.AccessMethod = "manual", "node_agent"
	parts, err := a.c.DB.Devices(ctx, n.ID)
	if err != nil {
		return err
	}
	if len(parts) > 0 {
		to.Devices = deviceResources(parts)
	}
	if to.Handout, err = a.handout(ctx, n); err != nil {
		return err
	}
	links, err := a.c.DB.HostLinks(ctx, n.ID)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.OldNodeID == n.ID {
			to.ReplacedBy = l.NewNodeID
		} else {
			to.Replaces = l.OldNodeID
		}
	}
	if to.OnboardingID, err = a.c.DB.MadeByRun(ctx, n.ID); err != nil || to.OnboardingID == "" {
		return err
	}
	r, err := a.c.DB.Run(ctx, to.OnboardingID)
	if err != nil {
		return err
	}
	var s onboarding.Onboarding
	_ = json.Unmarshal(r.State, &s) // a state of another version yields less
	to.OnboardingMode = "maas"
	if r.Kind == onboarding.AdoptionKind {
		to.OnboardingMode = "adopted"
	} else if to.Port = sshseed.Port; to.SiteID != "" {
		site, err := a.c.DB.Site(ctx, n.Site)
		if err != nil {
			return err
		}
		to.SSHUsername = site.DeployUser
	}
	if to.Host == "" && len(s.Seen.IPs) > 0 {
		to.Host = s.Seen.IPs[0]
	}
	return nil
}
