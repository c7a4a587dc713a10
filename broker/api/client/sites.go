package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// Document holds the fields of a create or a change by their names in the API. A change leaves
// omitted fields as they are.
type Document map[string]any

// Sites lists the MAAS sites.
func (c *Client) Sites(ctx context.Context) (*api.SiteList, error) {
	return fetch[api.SiteList](ctx, c, "/maas-sites", nil)
}

// Site returns a site by its id or name.
func (c *Client) Site(ctx context.Context, ref string) (*api.Site, error) {
	return fetch[api.Site](ctx, c, at("maas-sites", ref), nil)
}

// CreateSite creates a site; the document holds an api.SiteConfig.
func (c *Client) CreateSite(ctx context.Context, d Document) (*api.Site, error) {
	return submit[api.Site](ctx, c, http.MethodPost, "/maas-sites", d)
}

// UpdateSite changes a site.
func (c *Client) UpdateSite(ctx context.Context, ref string, d Document) (*api.Site, error) {
	return submit[api.Site](ctx, c, http.MethodPatch, at("maas-sites", ref), d)
}

// SiteProfiles lists a site's profiles.
func (c *Client) SiteProfiles(ctx context.Context, site string) (*api.SiteProfileList, error) {
	return fetch[api.SiteProfileList](ctx, c, at("maas-sites", site, "profiles"), nil)
}

// SiteProfile returns a profile by its id or name.
func (c *Client) SiteProfile(ctx context.Context, site, ref string) (*api.SiteProfile, error) {
	return fetch[api.SiteProfile](ctx, c, at("maas-sites", site, "profiles", ref), nil)
}

// CreateSiteProfile creates a profile; the document holds an api.SiteProfileConfig.
func (c *Client) CreateSiteProfile(ctx context.Context, site string, d Document) (*api.SiteProfile, error) {
	return submit[api.SiteProfile](ctx, c, http.MethodPost, at("maas-sites", site, "profiles"), d)
}

// UpdateSiteProfile changes a profile.
func (c *Client) UpdateSiteProfile(ctx context.Context, site, ref string, d Document) (*api.SiteProfile, error) {
	return submit[api.SiteProfile](ctx, c, http.MethodPatch, at("maas-sites", site, "profiles", ref), d)
}

// SetSiteCredentials stores a site's secrets after MAAS has accepted the token.
func (c *Client) SetSiteCredentials(ctx context.Context, site string, s api.SiteCredentials) (*api.SiteCredentialsSet, error) {
	return submit[api.SiteCredentialsSet](ctx, c, http.MethodPost, at("maas-sites", site, "credentials"), s)
}

// ProbeSite checks a site's requirements, for one profile or for all.
func (c *Client) ProbeSite(ctx context.Context, site, profile string) (*api.SiteProbe, error) {
	out := new(api.SiteProbe)
	err := c.do(ctx, call{method: http.MethodPost, path: at("maas-sites", site, "probe"), query: query("profile", profile), repeat: true},
		out)
	return out, err
}

// PowerOverrides lists a site's power credential overrides.
func (c *Client) PowerOverrides(ctx context.Context, site string) (*api.PowerOverrideList, error) {
	return fetch[api.PowerOverrideList](ctx, c, at("maas-sites", site, "power-overrides"), nil)
}

// PutPowerOverride gives a machine power credentials that differ from its site's.
func (c *Client) PutPowerOverride(ctx context.Context, site string, p api.PowerOverridePut) (*api.PowerOverride, error) {
	return submit[api.PowerOverride](ctx, c, http.MethodPost, at("maas-sites", site, "power-overrides"), p)
}

// ChangePowerOverride enables or disables an override.
func (c *Client) ChangePowerOverride(ctx context.Context, site, id string, change api.PowerOverrideChange) (*api.PowerOverride, error) {
	return submit[api.PowerOverride](ctx, c, http.MethodPatch, at("maas-sites", site, "power-overrides", id), change)
}

// RemovePowerOverride removes an override and its secret.
func (c *Client) RemovePowerOverride(ctx context.Context, site, id, reason string) (*api.PowerOverride, error) {
	return remove[api.PowerOverride](ctx, c, at("maas-sites", site, "power-overrides", id), reason)
}

// RoCE lists a site's RoCE assignments, or those of one host.
func (c *Client) RoCE(ctx context.Context, site, hostname string) (*api.RoCEList, error) {
	return fetch[api.RoCEList](ctx, c, at("maas-sites", site, "roce-assignments"), query("hostname", hostname))
}

// PutRoCE stores a list of assignments as a whole or not at all.
func (c *Client) PutRoCE(ctx context.Context, site string, p api.RoCEPut) (*api.RoCEResult, error) {
	return submit[api.RoCEResult](ctx, c, http.MethodPost, at("maas-sites", site, "roce-assignments"), p)
}

// RemoveRoCE removes one assignment.
func (c *Client) RemoveRoCE(ctx context.Context, site, id, reason string) (*api.RoCEAssignment, error) {
	return remove[api.RoCEAssignment](ctx, c, at("maas-sites", site, "roce-assignments", id), reason)
}

// SKUs lists the SKUs.
func (c *Client) SKUs(ctx context.Context) (*api.SKUList, error) {
	return fetch[api.SKUList](ctx, c, "/skus", nil)
}

// SKU returns one SKU.
func (c *Client) SKU(ctx context.Context, id string) (*api.SKU, error) {
	return fetch[api.SKU](ctx, c, at("skus", id), nil)
}

// CreateSKU creates a SKU; the document holds an api.SKUConfig.
func (c *Client) CreateSKU(ctx context.Context, d Document) (*api.SKU, error) {
	return submit[api.SKU](ctx, c, http.MethodPost, "/skus", d)
}

// UpdateSKU changes a SKU.
func (c *Client) UpdateSKU(ctx context.Context, id string, d Document) (*api.SKU, error) {
	return submit[api.SKU](ctx, c, http.MethodPatch, at("skus", id), d)
}
