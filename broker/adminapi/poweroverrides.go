package adminapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// OverrideInput names a power override of a site.
type OverrideInput struct {
	SiteInput
	Override string `path:"override" maxLength:"63"`
}

func (a *API) listOverrides(ctx context.Context, in *sitePageInput) (*api.PowerOverrideList, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.PowerOverrides(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	out := &api.PowerOverrideList{Items: make([]api.PowerOverride, len(all))}
	for i, o := range all {
		out.Items[i] = a.overrideResource(o)
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(o api.PowerOverride) string { return o.ID })
}

type putOverrideInput struct {
	SiteInput
	Body api.PowerOverridePut
}

// putOverride records an override and then stores its credentials. An override without credentials
// is refused when used; the same request repeated repairs it.
func (a *API) putOverride(ctx context.Context, in *putOverrideInput) (*api.PowerOverride, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	p, err := maas.NewPower(in.Body.PowerUser, in.Body.PowerPassword)
	if err != nil {
		return nil, err
	}
	o, err := a.c.DB.PutPowerOverride(ctx, callerOf(ctx).actor(), broker.PowerOverride{
		ID: uuid.NewString(), SiteID: s.ID, SelectorType: broker.PowerSelector(in.Body.SelectorType), SelectorValue: in.Body.SelectorValue,
	}, taskcatalog.Clean(in.Body.Reason, 500))
	if err != nil {
		return nil, err
	}
	if err := maas.PutPower(ctx, a.c.Secrets, o.VaultPath, p); err != nil {
		return nil, err
	}
	out := a.overrideResource(o)
	return &out, nil
}

type changeOverrideInput struct {
	OverrideInput
	Body api.PowerOverrideChange
}

func (a *API) changeOverride(ctx context.Context, in *changeOverrideInput) (*api.PowerOverride, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	o, err := a.c.DB.SetPowerOverrideStatus(ctx, callerOf(ctx).actor(), s.ID, in.Override, broker.SiteStatus(in.Body.Status),
		taskcatalog.Clean(in.Body.Reason, 500))
	if err != nil {
		return nil, err
	}
	out := a.overrideResource(o)
	return &out, nil
}

type removeOverrideInput struct {
	OverrideInput
	Reason
}

// removeOverride deletes the secret first: a record without a secret is refused when used, and can
// be removed again.
func (a *API) removeOverride(ctx context.Context, in *removeOverrideInput) (*api.PowerOverride, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	o, err := a.c.DB.PowerOverride(ctx, s.ID, in.Override)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "site.power_override.remove", "site/"+s.Name,
		"remove power override "+o.ID+" of site "+s.Name)
	if err != nil {
		return nil, err
	}
	if err := a.c.Secrets.Delete(ctx, o.VaultPath); err != nil {
		return nil, err
	}
	if o, err = a.c.DB.RemovePowerOverride(ctx, callerOf(ctx).actor(), s.ID, o.ID, reason); err != nil {
		return nil, err
	}
	out := a.overrideResource(o)
	return &out, nil
}

func (a *API) overrideResource(o broker.PowerOverride) api.PowerOverride {
	return api.PowerOverride{
		ID: o.ID, SiteID: o.SiteID, SelectorType: string(o.SelectorType), SelectorValue: o.SelectorValue, VaultPath: o.VaultPath,
		Status:     string(o.Status),
		LastUsedAt: o.LastUsedAt, Unused: o.Unused(a.c.Now()), CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt,
	}
}
