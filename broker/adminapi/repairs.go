package adminapi

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type repairsInput struct {
	Node   string `query:"node" maxLength:"320" doc:"only of this node: an id, also of a deleted node, a unique id prefix, a hostname, or site/hostname"`
	Serial string `query:"serial" maxLength:"100" doc:"only of this serial number, of the old or the new part"`
	Site   string `query:"site" maxLength:"63"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listRepairs(ctx context.Context, in *repairsInput) (*api.RepairList, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	f := store.RepairFilter{Serial: strings.TrimSpace(in.Serial), Sites: sites, After: in.Cursor, Limit: pageLimit(in.Limit)}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID = n.ID
	}
	page, next, err := a.c.DB.Repairs(ctx, f)
	return &api.RepairList{Items: resources(page, repairResource), Next: next}, err
}

type addRepairsInput struct{ Body api.RepairsAdd }

// addRepairs records repairs: all of the list, or none.
func (a *API) addRepairs(ctx context.Context, in *addRepairsInput) (*api.RepairsResult, error) {
	who := callerOf(ctx)
	clean := func(s string, most int) string { return taskcatalog.Clean(strings.TrimSpace(s), most) }
	all := make([]broker.Repair, len(in.Body.Items))
	for i, b := range in.Body.Items {
		where := fmt.Sprintf("item %d", i+1)
		if b.Line > 0 {
			where = fmt.Sprintf("line %d", b.Line)
		}
		r := broker.Repair{
			ID: broker.NewTenantID(broker.RepairPrefix, a.c.Now()), Source: broker.RepairByHand,
			Category: broker.MaintenanceCategory(b.Category), Action: broker.RepairAction(b.Action), Part: clean(b.Part, 40),
			Old:    broker.RepairPart{Model: clean(b.OldModel, 100), Serial: clean(b.OldSerial, 100)},
			New:    broker.RepairPart{Model: clean(b.NewModel, 100), Serial: clean(b.NewSerial, 100)},
			Ticket: clean(b.Ticket, 100), Note: clean(b.Note, 500), OpenedAt: b.OpenedAt, ClosedAt: b.ClosedAt,
		}
		switch {
		case b.Node != "":
			n, err := a.node(ctx, b.Node)
			if err != nil {
				return nil, ofItem(where, err)
			}
			r.NodeID = n.ID
		case who.sites() != nil:
			return nil, ofItem(where, siteForbidden(who, ""))
		}
		if b.Maintenance != "" {
			m, err := a.maintenance(ctx, b.Maintenance)
			if err == nil && m.NodeID != r.NodeID {
				err = broker.Errorf(broker.Invalid, "repair_invalid", "cannot record a repair: maintenance %s is of node %s (name that node, or another maintenance)", m.ID, m.NodeID)
			}
			if err != nil {
				return nil, ofItem(where, err)
			}
			r.MaintenanceID = m.ID
		}
		if err := r.Check(a.c.Now()); err != nil {
			return nil, ofItem(where, err)
		}
		all[i] = r
	}
	recorded, err := a.c.DB.RecordRepairs(ctx, who.actor(), all)
	return &api.RepairsResult{Recorded: resources(recorded, repairResource), Known: len(all) - len(recorded)}, err
}

type replaceHostInput struct{ Body api.HostReplace }

func (a *API) replaceHost(ctx context.Context, in *replaceHostInput) (*api.HostReplacement, error) {
	old, err := a.node(ctx, in.Body.Old)
	if err != nil {
		return nil, err
	}
	replacement, err := a.node(ctx, in.Body.New)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "repair.replace_host", "node/"+old.ID, "replace node "+old.ID)
	if err != nil {
		return nil, err
	}
	h, err := a.c.DB.ReplaceHost(ctx, callerOf(ctx).actor(), store.HostReplacement{
		OldNodeID: old.ID, NewNodeID: replacement.ID, Ticket: taskcatalog.Clean(strings.TrimSpace(in.Body.Ticket), 100), Reason: reason,
	})
	return &api.HostReplacement{OldNodeID: h.OldNodeID, NewNodeID: h.NewNodeID, At: h.At, By: h.By, Ticket: h.Ticket, Reason: h.Reason}, err
}

func repairResource(r broker.Repair) api.Repair {
	return api.Repair{
		ID: r.ID, NodeID: r.NodeID, Hostname: r.Hostname, Site: r.Site, MaintenanceID: r.MaintenanceID, Source: string(r.Source),
		Category: string(r.Category), Action: string(r.Action), Part: r.Part, OldModel: r.Old.Model, OldSerial: r.Old.Serial,
		NewModel: r.New.Model, NewSerial: r.New.Serial, Ticket: r.Ticket, Note: r.Note, RecordedBy: r.RecordedBy, RecordedAt: r.RecordedAt,
		OpenedAt: r.OpenedAt, ClosedAt: timeOrNull(r.ClosedAt),
	}
}

// replacementsDue adds alerts for nodes that were repaired so often that the policy asks for another machine.
func (a *API) replacementsDue(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.ReplacementsDue(ctx, sites, onScreen)
	for _, d := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "replacement_due", Since: d.Since,
			Message: fmt.Sprintf("node %s (%s): %d repairs of its %s in %d days (hostler repair list --node %s; when another machine has its place: hostler repair replace-host %s NEW)",
				d.NodeID, d.Hostname, d.Repairs, d.Part, int(broker.RepairsWithin.Hours()/24), d.NodeID, d.NodeID),
		})
	}
	return err
}
