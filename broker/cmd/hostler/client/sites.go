package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/adminapi/resource"
)

// Document holds the fields of a create or a change by their names in the API;
// what it leaves out stays as it is.
type Document map[string]any

// Sites lists the MAAS sites.
func (c *Client) Sites(ctx context.Context) (*resource.SiteList, error) {
	return fetch[resource.SiteList](ctx, c, "/maas-sites", nil)
}

// Site shows one, by its id or name.
func (c *Client) Site(ctx context.Context, ref string) (*resource.Site, error) {
	return fetch[resource.Site](ctx, c, at("maas-sites", ref), nil)
}

// CreateSite makes one; the document holds a resource.SiteConfig.
func (c *Client) CreateSite(ctx context.Context, d Document) (*resource.Site, error) {
	return submit[resource.Site](ctx, c, http.MethodPost, "/maas-sites", d)
}

// UpdateSite changes one.
func (c *Client) UpdateSite(ctx context.Context, ref string, d Document) (*resource.Site, error) {
	return submit[resource.Site](ctx, c, http.MethodPatch, at("maas-sites", ref), d)
}

// SiteProfiles lists a site's profiles.
func (c *Client) SiteProfiles(ctx context.Context, site string) (*resource.SiteProfileList, error) {
	return fetch[resource.SiteProfileList](ctx, c, at("maas-sites", site, "profiles"), nil)
}

// SiteProfile shows one, by its id or name.
func (c *Client) SiteProfile(ctx context.Context, site, ref string) (*resource.SiteProfile, error) {
	return fetch[resource.SiteProfile](ctx, c, at("maas-sites", site, "profiles", ref), nil)
}

// CreateSiteProfile makes one; the document holds a resource.SiteProfileConfig.
func (c *Client) CreateSiteProfile(ctx context.Context, site string, d Document) (*resource.SiteProfile, error) {
	return submit[resource.SiteProfile](ctx, c, http.MethodPost, at("maas-sites", site, "profiles"), d)
}

// UpdateSiteProfile changes one.
func (c *Client) UpdateSiteProfile(ctx context.Context, site, ref string, d Document) (*resource.SiteProfile, error) {
	return submit[resource.SiteProfile](ctx, c, http.MethodPatch, at("maas-sites", site, "profiles", ref), d)
}

// SetSiteCredentials keeps a site's secrets, once MAAS has taken the token.
func (c *Client) SetSiteCredentials(ctx context.Context, site string, s resource.SiteCredentials) (*resource.SiteCredentialsSet, error) {
	return submit[resource.SiteCredentialsSet](ctx, c, http.MethodPost, at("maas-sites", site, "credentials"), s)
}

// ProbeSite sees what a site needs and has, for one profile or all.
func (c *Client) ProbeSite(ctx context.Context, site, profile string) (*resource.SiteProbe, error) {
	out := new(resource.SiteProbe)
	err := c.do(ctx, call{method: http.MethodPost, path: at("maas-sites", site, "probe"), query: query("profile", profile), repeat: true}, out)
	return out, err
}

// PowerOverrides lists a site's power credential overrides.
func (c *Client) PowerOverrides(ctx context.Context, site string) (*resource.PowerOverrideList, error) {
	return fetch[resource.PowerOverrideList](ctx, c, at("maas-sites", site, "power-overrides"), nil)
}

// PutPowerOverride gives a machine other power credentials than its site's.
func (c *Client) PutPowerOverride(ctx context.Context, site string, p resource.PowerOverridePut) (*resource.PowerOverride, error) {
	return submit[resource.PowerOverride](ctx, c, http.MethodPost, at("maas-sites", site, "power-overrides"), p)
}

// ChangePowerOverride disables or enables one.
func (c *Client) ChangePowerOverride(ctx context.Context, site, id string, change resource.PowerOverrideChange) (*resource.PowerOverride, error) {
	return submit[resource.PowerOverride](ctx, c, http.MethodPatch, at("maas-sites", site, "power-overrides", id), change)
}

// RemovePowerOverride removes one and its secret.
func (c *Client) RemovePowerOverride(ctx context.Context, site, id, reason string) (*resource.PowerOverride, error) {
	return remove[resource.PowerOverride](ctx, c, at("maas-sites", site, "power-overrides", id), reason)
}

// RoCE lists a site's RoCE assignments, or those of one host.
func (c *Client) RoCE(ctx context.Context, site, hostname string) (*resource.RoCEList, error) {
	return fetch[resource.RoCEList](ctx, c, at("maas-sites", site, "roce-assignments"), query("hostname", hostname))
}

// PutRoCE keeps a list, whole or not at all.
func (c *Client) PutRoCE(ctx context.Context, site string, p resource.RoCEPut) (*resource.RoCEResult, error) {
	return submit[resource.RoCEResult](ctx, c, http.MethodPost, at("maas-sites", site, "roce-assignments"), p)
}

// RemoveRoCE removes one assignment.
func (c *Client) RemoveRoCE(ctx context.Context, site, id, reason string) (*resource.RoCEAssignment, error) {
	return remove[resource.RoCEAssignment](ctx, c, at("maas-sites", site, "roce-assignments", id), reason)
}

// SKUs lists the SKUs.
func (c *Client) SKUs(ctx context.Context) (*resource.SKUList, error) {
	return fetch[resource.SKUList](ctx, c, "/skus", nil)
}

// SKU shows one.
func (c *Client) SKU(ctx context.Context, id string) (*resource.SKU, error) {
	return fetch[resource.SKU](ctx, c, at("skus", id), nil)
}

// CreateSKU makes one; the document holds a resource.SKUConfig.
func (c *Client) CreateSKU(ctx context.Context, d Document) (*resource.SKU, error) {
	return submit[resource.SKU](ctx, c, http.MethodPost, "/skus", d)
}

// UpdateSKU changes one.
func (c *Client) UpdateSKU(ctx context.Context, id string, d Document) (*resource.SKU, error) {
	return submit[resource.SKU](ctx, c, http.MethodPatch, at("skus", id), d)
}
