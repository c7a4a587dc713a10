package adminapi

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// OrganisationInput names an organisation.
type OrganisationInput struct {
	Organisation string `path:"organisation" maxLength:"64" doc:"the organisation's id or name"`
}

// TenantPageInput selects a page of a list of what belongs to tenants.
type TenantPageInput struct {
	Ended  bool   `query:"ended" doc:"list what has ended, too"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (in TenantPageInput) page(within broker.Place) store.TenantPage {
	return store.TenantPage{Within: within, Ended: in.Ended, After: in.Cursor, Limit: pageLimit(in.Limit)}
}

// organisation finds the named organisation among those that the caller's place reaches.
func (a *API) organisation(ctx context.Context, ref string) (broker.Organisation, error) {
	return a.c.DB.Organisation(ctx, callerOf(ctx).Place, ref)
}

func (a *API) listOrganisations(ctx context.Context, in *TenantPageInput) (*api.OrganisationList, error) {
	page, next, err := a.c.DB.Organisations(ctx, in.page(callerOf(ctx).Place))
	if err != nil {
		return nil, err
	}
	return &api.OrganisationList{Items: resources(page, organisationResource), Next: next}, nil
}

type createOrganisationInput struct{ Body api.OrganisationCreate }

func (a *API) createOrganisation(ctx context.Context, in *createOrganisationInput) (*api.Organisation, error) {
	ctx = withReason(ctx, in.Body.Reason)
	return resource(organisationResource)(a.c.Tenants.CreateOrganisation(ctx, callerOf(ctx).actor(), in.Body.Name))
}

func (a *API) showOrganisation(ctx context.Context, in *OrganisationInput) (*api.Organisation, error) {
	return resource(organisationResource)(a.organisation(ctx, in.Organisation))
}

type endOrganisationInput struct {
	OrganisationInput
	Body api.ReasonBody
}

func (a *API) endOrganisation(ctx context.Context, in *endOrganisationInput) (*api.Organisation, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "organisation.end", "organisation/"+o.ID, "end organisation "+o.Name)
	if err != nil {
		return nil, err
	}
	return resource(organisationResource)(a.c.Tenants.EndOrganisation(ctx, callerOf(ctx).actor(), o.ID, reason))
}

func organisationResource(o broker.Organisation) api.Organisation {
	return api.Organisation{ID: o.ID, Name: o.Name, CreatedAt: o.CreatedAt, EndedAt: timeOrNull(o.EndedAt)}
}

// resource turns the result of a call into an answer.
func resource[T, R any](of func(T) R) func(T, error) (*R, error) {
	return func(v T, err error) (*R, error) {
		if err != nil {
			return nil, err
		}
		out := of(v)
		return &out, nil
	}
}

func resources[T, R any](all []T, of func(T) R) []R {
	out := make([]R, len(all))
	for i, v := range all {
		out[i] = of(v)
	}
	return out
}

// timeOrNull is null for the zero time.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
