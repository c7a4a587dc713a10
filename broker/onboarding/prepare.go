package onboarding

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
)

// loadSiteConfig checks that runs can work at the site.
func (c *Chains) loadSiteConfig(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	if at.site.Status != broker.SiteActive && r.State.SystemID == "" {
		return chain.Fail(inputError, "site %s is %s: no new run begins there (hostler site enable %s)", at.site.Name, at.site.Status,
			at.site.Name).With("site_disabled", nil)
	}
	id, err := at.region.Identify(ctx)
	switch {
	case err != nil:
		return at.unseen(ctx, err)
	case !id.Admin:
		return chain.Hold("the MAAS token belongs to %s, who is not an administrator (hostler site credentials %s --maas-token-file FILE)",
			id.User, at.site.Name)
	}
	r.Reached()
	if s := &r.State; s.SystemID == "" || s.Reclaim != nil && s.Reclaim.Redeploys && s.Reclaim.AskedAt.IsZero() {
		if err := at.ready(ctx); err != nil {
			return err
		}
	}
	r.State.MAASVersion, r.State.MAASUser = id.Version, id.User
	r.Note(map[string]string{"maas_version": id.Version, "maas_user": id.User}, "MAAS %s accepts the token of %s", id.Version, id.User)
	return nil
}

// ready checks, before a machine is touched, the site for everything this run will need. A check
// that fails to get an answer now is left to the stage that needs the thing.
func (at *place) ready(ctx context.Context) error {
	var r maas.Report
	r.Needs(ctx, at.region, at.site.CommissioningScripts, []broker.Policy{{MachinePolicy: at.state.Policy}})
	var lacks []string
	for _, c := range r.Failed() {
		if c.NextStep != "" {
			lacks = append(lacks, c.Name+": "+c.Detail)
		}
	}
	if lacks == nil {
		return nil
	}
	return chain.Fail(capabilityMissing, "site %s lacks what this needs: %s (hostler site probe %s)", at.site.Name,
		strings.Join(lacks, "; "), at.site.Name).
		With("site_not_ready", map[string]any{"lacks": lacks})
}

// resolvePower finds the secret with the BMC's login and checks that the secret can be read. The
// state keeps the secret's path only.
func (c *Chains) resolvePower(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	s.PowerPath, s.PowerFrom = at.site.PowerPath, "default"
	o, has, err := c.Records.UsePowerOverride(ctx, s.SiteID, s.PXEMAC, s.IPMIIP, s.Hostname)
	if err != nil {
		return storeFault(err)
	}
	if has {
		s.PowerPath, s.PowerFrom = o.VaultPath, string(o.SelectorType)
	}
	if _, err := c.bmcLogin(ctx, at); err != nil {
		return err
	}
	r.Note(map[string]string{"power_from": s.PowerFrom}, "power credentials by %s", s.PowerFrom)
	return nil
}

// bmcLogin reads the secret as it is now.
func (c *Chains) bmcLogin(ctx context.Context, at *place) (maas.Power, error) {
	p, err := maas.PowerAt(ctx, c.Regions.Secrets, at.site, at.state.PowerPath)
	if err == nil {
		return p, nil
	}
	if e := broker.AsError(err); e.Kind == broker.Refused {
		return p, chain.Fail(capabilityMissing, "%w", err).With(e.Code, nil)
	}
	return p, storeFault(err)
}
