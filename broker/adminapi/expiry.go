package adminapi

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// listExpiry lists everything with an end that the broker depends on. Keys and tokens belong to all
// sites, so a token bound to sites may not list them.
func (a *API) listExpiry(ctx context.Context, in *PageInput) (*api.Expiry, error) {
	if who := callerOf(ctx); len(who.Sites) > 0 {
		return nil, broker.Errorf(broker.Forbidden, "site_forbidden",
			"cannot list what expires: token %s is bound to %s, and keys belong to all sites (use a token of all sites)", who.Name,
			strings.Join(who.Sites, ", "))
	}
	items, err := a.c.Expiry.Items(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.Expiry{Items: []api.ExpiryItem{}}
	for _, i := range items {
		out.Items = append(out.Items, api.ExpiryItem{
			What: i.What, Name: i.Name, At: i.At, Near: i.Near(a.c.Now()), Renew: i.Renew,
			Trouble: taskcatalog.Clean(i.Trouble, 500),
		})
	}
	return out, cut(*in, &out.Items, &out.Next, func(i api.ExpiryItem) string { return i.What + "/" + i.Name })
}
