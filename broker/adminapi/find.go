package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

type findInput struct {
	Word string `query:"q" required:"true" minLength:"2" maxLength:"320" doc:"serial number, MAC, UUID, MAAS id, hostname, name, IP address or id, as a whole"`
	PageInput
}

func (a *API) find(ctx context.Context, in *findInput) (*api.FoundList, error) {
	found, more, err := a.found(ctx, in.Word)
	if err != nil {
		return nil, err
	}
	out := &api.FoundList{Items: make([]api.Found, len(found)), More: more}
	for i, f := range found {
		out.Items[i] = api.Found{
			Kind: string(f.Kind), ID: f.ID, By: f.By, What: taskcatalog.Clean(f.What, 200), Status: f.Status,
			NodeID: f.NodeID, Hostname: f.Hostname, Site: siteOf(f.Site),
		}
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(f api.Found) string { return f.Kind + "/" + f.ID + "/" + f.NodeID })
}

// found returns what a word names of what the caller may see. Terminals are for operators.
func (a *API) found(ctx context.Context, word string) (found []broker.Found, more bool, err error) {
	who := callerOf(ctx)
	found, more, err = a.c.DB.Find(ctx, broker.ParseWord(word), who.sites())
	if !operator.admits(who) {
		found = slices.DeleteFunc(found, func(f broker.Found) bool { return f.Kind == broker.FoundTerminal })
	}
	return found, more, err
}

// nodeByWord finds a node as node does, and otherwise by any word that names the node, or a thing of
// the node. An undeleted node goes before deleted ones. Only reading takes such words: a request that
// changes a node names the node itself. Codes: node_not_found, ambiguous_node.
func (a *API) nodeByWord(ctx context.Context, word string) (broker.Node, error) {
	n, err := a.node(ctx, word)
	if err == nil || broker.AsError(err).Code != "node_not_found" {
		return n, err
	}
	found, _, findErr := a.found(ctx, word)
	if findErr != nil {
		return n, findErr
	}
	var live, deleted []broker.Node
	for _, f := range found {
		same := func(n broker.Node) bool { return n.ID == f.NodeID }
		if f.NodeID == "" || slices.ContainsFunc(live, same) || slices.ContainsFunc(deleted, same) {
			continue
		}
		n, err := a.c.DB.Node(ctx, f.NodeID)
		switch {
		case err != nil:
			return n, err
		case !callerOf(ctx).MaySee(n.Site):
		case n.Status == broker.Deleted && f.By == "hostname": // a deleted node's name is free
		case n.Status == broker.Deleted:
			deleted = append(deleted, n)
		default:
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		live = deleted
	}
	switch len(live) {
	case 0:
		return broker.Node{}, err
	case 1:
		return live[0], nil
	}
	var names []string
	for _, n := range live[:min(len(live), 10)] {
		names = append(names, n.ID+" ("+strings.TrimPrefix(n.Site+"/"+n.Hostname, "/")+")")
	}
	if len(live) > 10 {
		names = append(names, "…")
	}
	return broker.Node{}, broker.Errorf(broker.Refused, "ambiguous_node", "%q names several nodes: %s (use an id, or see hostler find)",
		taskcatalog.Clean(word, 100), strings.Join(names, ", "))
}
