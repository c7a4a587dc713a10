package adminapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// NodeInput names a node: an id, a unique id prefix, a hostname, or site/hostname with the slash
// escaped. The type is exported because huma ignores embedded structs with unexported names.
type NodeInput struct {
	Node string `path:"node" maxLength:"320" doc:"an id, a unique id prefix, a hostname, or site/hostname"`
}

// node finds the named node among the sites that the caller may see.
func (a *API) node(ctx context.Context, ref string) (broker.Node, error) {
	return a.c.DB.FindNode(ctx, ref, callerOf(ctx).sites())
}

// checkHostnameScope refuses a hostname that would become ambiguous. A caller that sees all sites
// finds a node by hostname alone. So a token bound to sites may not take a hostname of a site
// outside its view, nor a hostname that reads as the beginning of a node's id. Code:
// hostname_taken.
func (a *API) checkHostnameScope(ctx context.Context, site, hostname string) error {
	who := callerOf(ctx)
	if who.sites() == nil {
		return nil
	}
	taken, err := a.c.DB.NameTaken(ctx, hostname, who.sites())
	if err != nil || !taken {
		return err
	}
	return broker.Errorf(broker.Refused, "hostname_taken",
		"cannot use hostname %s at site %s: a node of a site that token %s may not see has this hostname (choose another hostname, or use a token of all sites)", hostname, site, who.Name)
}

// MachineInput selects nodes by their machines. The type is exported because huma ignores embedded
// structs with unexported names.
type MachineInput struct {
	Hostname     string    `query:"hostname" maxLength:"253"`
	SKU          string    `query:"sku" maxLength:"63"`
	Serial       string    `query:"serial" maxLength:"128" doc:"serial number of the chassis, in any case"`
	Tenant       string    `query:"tenant" maxLength:"128" doc:"tenant of an allocation that is live on the node"`
	UpdatedSince time.Time `query:"updated_since" doc:"nodes whose record changed at this time or later"`
}

type nodesInput struct {
	Site   string `query:"site" maxLength:"63"`
	Status string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas"`

	Availability string `query:"availability" maxLength:"100" doc:"one or more of allocated, available, in_turnover, maintenance, held, out_of_service and unknown, separated by commas"`

	MachineInput
	Label  []string `query:"label,explode" maxItems:"16" doc:"key=value; a node must match all. A page looks at 1000 nodes, and may have fewer than limit, or none, although next is set"`
	Cursor string   `query:"cursor" maxLength:"64"`
	Limit  int      `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listNodes(ctx context.Context, in *nodesInput) (*api.NodeList, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	f := store.NodeFilter{Sites: sites, After: in.Cursor, Limit: pageLimit(in.Limit)}
	if f.Statuses, err = nodeStatuses(in.Status); err != nil {
		return nil, err
	}
	if f.Availabilities, err = availabilities(in.Availability); err != nil {
		return nil, err
	}
	if f.Labels, err = labelFilter(in.Label); err != nil {
		return nil, err
	}
	if in.Hostname != "" {
		var ok bool
		if f.Hostname, ok = broker.CanonicalHostname(in.Hostname); !ok {
			return nil, broker.Errorf(broker.Invalid, "hostname_invalid", "cannot filter by hostname %q: it is no hostname",
				taskcatalog.Clean(in.Hostname, 100))
		}
	}
	f.MachineFilter = store.MachineFilter{
		SKU: in.SKU, Serial: strings.TrimSpace(in.Serial), Tenant: in.Tenant, UpdatedSince: in.UpdatedSince,
	}
	page, next, err := a.c.DB.ListNodes(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.nodeResources(ctx, page...)
	if err != nil {
		return nil, err
	}
	return &api.NodeList{Items: items, Next: next}, a.addAvailability(ctx, items)
}

func (a *API) showNode(ctx context.Context, in *NodeInput) (*api.Node, error) {
	n, err := a.nodeByWord(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	out, err := a.nodeResources(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := a.describe(ctx, n, &out[0]); err != nil {
		return nil, err
	}
	return &out[0], a.addAvailability(ctx, out)
}

// visibleSites returns the sites to look at: the named site, if the caller may see it, or all that
// the caller may see.
func visibleSites(who caller, site string) ([]string, error) {
	if site == "" {
		return who.sites(), nil
	}
	if !who.MaySee(site) {
		return nil, siteForbidden(who, site)
	}
	return []string{site}, nil
}

func siteForbidden(who caller, site string) error {
	what := "site " + taskcatalog.Clean(site, 64)
	if site == "" {
		what = "nodes without a site"
	}
	return broker.Errorf(broker.Forbidden, "site_forbidden", "cannot reach %s: token %s is bound to %s", what, who.Name,
		strings.Join(who.Sites, ", "))
}

func nodeStatuses(list string) ([]broker.NodeStatus, error) {
	var out []broker.NodeStatus
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		s := broker.NodeStatus(name)
		if !slices.Contains(broker.NodeStatuses, s) {
			return nil, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such node status",
				taskcatalog.Clean(name, 40))
		}
		out = append(out, s)
	}
	return out, nil
}
