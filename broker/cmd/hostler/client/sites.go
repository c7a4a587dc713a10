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
