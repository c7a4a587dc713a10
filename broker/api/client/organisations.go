package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// Organisations lists the organisations; with ended, those that have ended, too.
func (c *Client) Organisations(ctx context.Context, ended bool) (all []api.Organisation, err error) {
	all = []api.Organisation{}
	err = eachPage(ctx, c, at("organisations"), endedQuery(ended), func(l *api.OrganisationList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// Organisation returns an organisation by its id or name.
func (c *Client) Organisation(ctx context.Context, ref string) (*api.Organisation, error) {
	return fetch[api.Organisation](ctx, c, at("organisations", ref), nil)
}

// CreateOrganisation creates an organisation.
func (c *Client) CreateOrganisation(ctx context.Context, o api.OrganisationCreate) (*api.Organisation, error) {
	return submit[api.Organisation](ctx, c, http.MethodPost, at("organisations"), o)
}

// EndOrganisation ends an organisation. The record stays.
func (c *Client) EndOrganisation(ctx context.Context, ref, reason string) (*api.Organisation, error) {
	return submit[api.Organisation](ctx, c, http.MethodPost, at("organisations", ref, "end"), api.ReasonBody{Reason: reason})
}

// eachPage reads all pages of a list; add takes a page and returns the cursor of the next page.
func eachPage[L any](ctx context.Context, c *Client, path string, q url.Values, add func(*L) (next string)) error {
	q.Set("limit", strconv.Itoa(pageSize))
	for {
		page, err := fetch[L](ctx, c, path, q)
		if err != nil {
			return err
		}
		next := add(page)
		if next == "" {
			return nil
		}
		q.Set("cursor", next)
	}
}

func endedQuery(ended bool) url.Values {
	if ended {
		return query("ended", "true")
	}
	return url.Values{}
}
