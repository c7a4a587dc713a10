package adminapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
)

type freezeStatusInput struct {
	Site string `query:"site" maxLength:"63"`
}

func (a *API) freezeStatus(ctx context.Context, in *freezeStatusInput) (*api.FreezeStatus, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	out := &api.FreezeStatus{}
	if out.Holds, err = a.holds(ctx, sites); err != nil {
		return nil, err
	}
	out.UnderWay, err = a.underWay(ctx, sites)
	return out, err
}

type freezeInput struct{ Body api.FreezePut }

// freeze is open to every operator, so that the first person who sees a fault can stop the site.
func (a *API) freeze(ctx context.Context, in *freezeInput) (*api.FreezeResult, error) {
	reason, err := a.mayFreeze(ctx, in.Body, chain.Freeze.Action())
	if err != nil {
		return nil, err
	}
	h, standing, placed, err := a.c.DB.Freeze(ctx, callerOf(ctx).actor(), in.Body.Site, reason)
	if err != nil {
		return nil, err
	}
	if placed {
		a.c.Log.Warn("frozen", zap.String("site", h.About()), zap.String("by", h.By), zap.String("reason", h.Reason))
	}
	return a.freezeResult(ctx, api.FreezeResult{Hold: holdResource(h), Changed: placed, Standing: holdResources(standing)})
}

type unfreezeInput struct{ Body api.UnfreezePut }

// unfreeze lifts the caller's own freeze; platform admins may force the lift of others.
func (a *API) unfreeze(ctx context.Context, in *unfreezeInput) (*api.FreezeResult, error) {
	reason, err := a.mayFreeze(ctx, in.Body.FreezePut, chain.Freeze.Lifting())
	if err != nil {
		return nil, err
	}
	lifted, standing, err := a.c.DB.Unfreeze(ctx, callerOf(ctx).actor(), in.Body.Site, reason, in.Body.Force)
	if err != nil {
		return nil, err
	}
	out := api.FreezeResult{
		Hold: api.Hold{Site: in.Body.Site, Kind: string(chain.Freeze)}, Changed: len(lifted) > 0,
		Lifted: holdResources(lifted), Standing: holdResources(standing),
	}
	if out.Changed {
		out.Hold = out.Lifted[0]
	}
	return a.freezeResult(ctx, out)
}

// mayFreeze limits a token bound to sites to those sites; such a token may not freeze all sites.
func (a *API) mayFreeze(ctx context.Context, in api.FreezePut, action string) (reason string, err error) {
	switch who := callerOf(ctx); {
	case in.Site == "" && who.sites() != nil:
		return "", broker.Errorf(broker.Forbidden, "site_forbidden",
			"cannot do this at all sites: token %s is bound to %s (name a site: --site)", who.Name, strings.Join(who.Sites, ", "))
	case !who.MaySee(in.Site):
		return "", siteForbidden(who, in.Site)
	}
	return a.reasonFor(ctx, in.Reason, action, chain.SiteHold{Site: in.Site}.About(), "do this")
}

func (a *API) freezeResult(ctx context.Context, out api.FreezeResult) (*api.FreezeResult, error) {
	sites := []string{out.Site}
	if out.Site == "" {
		sites = nil
	}
	var err error
	out.UnderWay, err = a.underWay(ctx, sites)
	return &out, err
}

func (a *API) underWay(ctx context.Context, sites []string) (out api.UnderWay, err error) {
	out.DestructiveTasks, out.Stages, err = a.c.DB.UnderWay(ctx, sites)
	return out, err
}

// holds lists the holds in force at sites (nil: all), freezes first.
func (a *API) holds(ctx context.Context, sites []string) ([]api.Hold, error) {
	standing, err := a.c.DB.StandingHolds(ctx, sites)
	if err != nil {
		return nil, err
	}
	out := make([]api.Hold, 0, len(standing))
	for _, kind := range []chain.HoldKind{chain.Restored, chain.Freeze, chain.Unreachable} {
		for _, h := range standing {
			if h.Kind == kind {
				out = append(out, holdResource(h))
			}
		}
	}
	return out, nil
}

func holdResource(h chain.SiteHold) api.Hold {
	return api.Hold{Site: h.Site, Kind: string(h.Kind), Reason: h.Reason, By: h.By, Since: h.Since}
}

func holdResources(holds []chain.SiteHold) []api.Hold {
	out := make([]api.Hold, len(holds))
	for i, h := range holds {
		out[i] = holdResource(h)
	}
	return out
}

// frozen returns the freezes that go with every answer to a caller. If the freezes cannot be read,
// the answer goes out without them.
func (a *API) frozen(ctx context.Context, who caller) []api.Hold {
	holds, err := a.holds(ctx, who.sites())
	if err != nil {
		a.c.Log.Warn("cannot read the freezes", zap.Error(err))
	}
	return slices.DeleteFunc(holds, func(h api.Hold) bool { return h.Kind != string(chain.Freeze) })
}

// setFrozenHeader sets the header that names frozen sites.
func setFrozenHeader(h http.Header, frozen []api.Hold) {
	var sites []string
	for _, f := range frozen {
		site := cmp.Or(f.Site, "*")
		if !slices.Contains(sites, site) {
			sites = append(sites, site)
		}
	}
	if len(sites) > 0 {
		h.Set(api.HeaderFrozen, strings.Join(sites, ", "))
	}
}
