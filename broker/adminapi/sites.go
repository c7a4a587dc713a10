package adminapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// SiteInput names a site: its id or its name.
type SiteInput struct {
	Site string `path:"site" maxLength:"63" doc:"the site's id or name"`
}

// site finds the named site. A site that the caller may not see is answered as not found.
func (a *API) site(ctx context.Context, ref string) (broker.Site, error) {
	s, err := a.c.DB.Site(ctx, ref)
	if err == nil && !callerOf(ctx).MaySee(s.Name) {
		return broker.Site{}, broker.Errorf(broker.NotFound, "site_not_found", "there is no site %q (see hostler site list)",
			taskcatalog.Clean(ref, 64))
	}
	return s, err
}

// checkSiteName refuses the name of a site that is not on record; an empty name is valid. Settings
// stored under a mistyped name would apply nowhere. Code: site_not_found.
func (a *API) checkSiteName(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	s, err := a.site(ctx, name)
	if err == nil && s.Name != name { // ref was an id, but nodes carry names
		err = broker.Errorf(broker.NotFound, "site_not_found", "there is no site %q (see hostler site list)", taskcatalog.Clean(name, 64))
	}
	return err
}

func (a *API) listSites(ctx context.Context, in *PageInput) (*api.SiteList, error) {
	all, err := a.c.DB.Sites(ctx, callerOf(ctx).sites())
	if err != nil {
		return nil, err
	}
	holds, err := a.holds(ctx, callerOf(ctx).sites())
	if err != nil {
		return nil, err
	}
	out := &api.SiteList{Items: make([]api.Site, len(all))}
	for i, s := range all {
		out.Items[i] = siteResource(s)
		out.Items[i].Holds = standingAt(holds, s.Name)
	}
	return out, cut(*in, &out.Items, &out.Next, func(s api.Site) string { return s.ID })
}

// standingAt returns the holds of a site, and the holds of all sites.
func standingAt(holds []api.Hold, site string) (out []api.Hold) {
	for _, h := range holds {
		if h.Site == site || h.Site == "" {
			out = append(out, h)
		}
	}
	return out
}

func (a *API) showSite(ctx context.Context, in *SiteInput) (*api.Site, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	out := siteResource(s)
	holds, err := a.holds(ctx, []string{s.Name})
	out.Holds = standingAt(holds, s.Name)
	return &out, err
}

type createSiteInput struct {
	Body overlay[api.SiteConfig]
}

// createSite makes a site with a default profile. The credentials follow in a later call.
func (a *API) createSite(ctx context.Context, in *createSiteInput) (*api.Site, error) {
	s := broker.NewSite(uuid.NewString())
	c, err := in.Body.over(siteConfig(s))
	if err != nil {
		return nil, err
	}
	if c.DefaultProfileID != "" {
		return nil, broker.Errorf(broker.Invalid, "site_invalid",
			"cannot store site %s: the default profile is created together with the site", taskcatalog.Clean(c.Name, 64))
	}
	configure(&s, c)
	s.Name = c.Name
	p := broker.NewProfile(uuid.NewString(), s.ID, broker.DefaultProfile)
	made, err := a.c.DB.CreateSite(withReason(ctx, c.Reason), callerOf(ctx).actor(), s, p)
	if err != nil {
		return nil, err
	}
	out := siteResource(made)
	return &out, nil
}

type updateSiteInput struct {
	SiteInput
	Body overlay[api.SiteConfig]
}

func (a *API) updateSite(ctx context.Context, in *updateSiteInput) (*api.Site, error) {
	said, err := in.Body.over(api.SiteConfig{}) // only for the reason
	if err != nil {
		return nil, err
	}
	return a.changeSite(ctx, in.Site, said.Reason, func(s *broker.Site) error {
		c, err := in.Body.over(siteConfig(*s))
		if err != nil {
			return err
		}
		configure(s, c)
		s.Name = c.Name // so that a rename is refused, not ignored
		return nil
	})
}

// Reason is the reason of a request without a body.
type Reason struct {
	Reason string `query:"reason" maxLength:"500" doc:"required; recorded in the audit log"`
}

type disableSiteInput struct {
	SiteInput
	Reason
}

// disableSite implements DELETE: the record stays, and running work continues.
func (a *API) disableSite(ctx context.Context, in *disableSiteInput) (*api.Site, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "site.update", "site/"+s.Name, "disable site "+s.Name)
	if err != nil {
		return nil, err
	}
	return a.changeSite(ctx, s.ID, reason, func(s *broker.Site) error {
		s.Status = broker.SiteDisabled
		return nil
	})
}

func (a *API) changeSite(ctx context.Context, ref, reason string, change func(*broker.Site) error) (*api.Site, error) {
	s, err := a.site(ctx, ref)
	if err != nil {
		return nil, err
	}
	if s, err = a.c.DB.UpdateSite(ctx, callerOf(ctx).actor(), s.ID, taskcatalog.Clean(reason, 500), change); err != nil {
		return nil, err
	}
	out := siteResource(s)
	return &out, nil
}

func configure(s *broker.Site, c api.SiteConfig) {
	s.RegionCode, s.Status, s.APIBaseURL, s.CACert = c.RegionCode, broker.SiteStatus(c.Status), c.APIBaseURL, c.CACert
	s.PXEIface, s.PXEVLANVID, s.NodePXEIface = c.PXEIface, c.PXEVLANVID, c.NodePXEIface
	s.DistroSeries, s.Architecture, s.UpstreamDNSServers = c.DistroSeries, c.Architecture, c.UpstreamDNSServers
	s.DeployUser, s.DeploySSHIface, s.DefaultProfileID = c.DeployUser, c.DeploySSHIface, c.DefaultProfileID
	s.Issuer = broker.Issuer{Organisation: c.IssuerOrganisation, Contact: c.IssuerContact, TrustURL: c.IssuerTrustURL}
	s.CommissioningScripts = make([]broker.ScriptVersion, len(c.CommissioningScripts))
	for i, v := range c.CommissioningScripts {
		s.CommissioningScripts[i] = broker.ScriptVersion(v)
	}
}

func siteConfig(s broker.Site) api.SiteConfig {
	c := api.SiteConfig{
		Name: s.Name, RegionCode: s.RegionCode, Status: string(s.Status), APIBaseURL: s.APIBaseURL, CACert: s.CACert,
		PXEIface: s.PXEIface, PXEVLANVID: s.PXEVLANVID, NodePXEIface: s.NodePXEIface,
		DistroSeries: s.DistroSeries, Architecture: s.Architecture, UpstreamDNSServers: s.UpstreamDNSServers,
		DeployUser: s.DeployUser, DeploySSHIface: s.DeploySSHIface, DefaultProfileID: s.DefaultProfileID,
		IssuerOrganisation: s.Issuer.Organisation, IssuerContact: s.Issuer.Contact, IssuerTrustURL: s.Issuer.TrustURL,
		CommissioningScripts: make([]api.SiteScript, len(s.CommissioningScripts)),
	}
	for i, v := range s.CommissioningScripts {
		c.CommissioningScripts[i] = api.SiteScript(v)
	}
	return c
}

func siteResource(s broker.Site) api.Site {
	return api.Site{
		ID: s.ID, SiteConfig: siteConfig(s), DefaultProfile: s.DefaultProfile, DeploySSHPublicKey: s.DeploySSHPublicKey,
		APITokenVaultPath: s.APITokenPath, DefaultPowerCredsVaultPath: s.PowerPath,
		DeployPasswordVaultPath: s.DeployPasswordPath, DeploySSHKeyVaultPath: s.DeploySSHKeyPath,
		APITokenSetAt: s.APITokenSetAt, DefaultPowerCredsSetAt: s.PowerSetAt, DeployPasswordSetAt: s.DeployPasswordSetAt,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}
