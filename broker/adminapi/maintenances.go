package adminapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	maintenancerecords "github.com/hostler/hostler/broker/maintenance/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// MaintenanceInput names a maintenance.
type MaintenanceInput struct {
	Maintenance string `path:"maintenance" maxLength:"64"`
}

// maintenance finds a maintenance that the caller may see. Any other one is answered like one that does not exist.
func (a *API) maintenance(ctx context.Context, id string) (broker.Maintenance, error) {
	m, err := a.c.DB.Maintenance(ctx, id)
	if err == nil && m.Site != "" && !callerOf(ctx).MaySee(m.Site) {
		return broker.Maintenance{}, broker.MaintenanceNotFound(id)
	}
	return m, err
}

type maintenancesInput struct {
	Node   string `query:"node" maxLength:"320" doc:"only of this node: an id, a unique id prefix, a hostname, or site/hostname"`
	Site   string `query:"site" maxLength:"63"`
	Status string `query:"status" maxLength:"100" doc:"one or more of planned, open, closed, cancelled and missed, separated by commas"`
	Ended  bool   `query:"ended" doc:"list what has ended, too"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listMaintenances(ctx context.Context, in *maintenancesInput) (*api.MaintenanceList, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	f := store.MaintenanceFilter{Sites: sites, Ended: in.Ended, After: in.Cursor, Limit: pageLimit(in.Limit)}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID = n.ID
	}
	for name := range strings.SplitSeq(in.Status, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(broker.MaintenanceStatuses, broker.MaintenanceStatus(name)) {
			return nil, broker.Errorf(broker.Invalid, "maintenance_invalid", "cannot filter by status %q: there is no such status", taskcatalog.Clean(name, 40))
		}
		f.Statuses = append(f.Statuses, broker.MaintenanceStatus(name))
	}
	page, next, err := a.c.DB.Maintenances(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.maintenanceResources(ctx, page...)
	return &api.MaintenanceList{Items: items, Next: next}, err
}

func (a *API) showMaintenance(ctx context.Context, in *MaintenanceInput) (*api.MaintenanceDetail, error) {
	m, err := a.maintenance(ctx, in.Maintenance)
	if err != nil {
		return nil, err
	}
	return a.maintenanceDetail(ctx, m)
}

type createMaintenanceInput struct {
	RequestKey
	Body api.MaintenanceCreate
}

func (a *API) createMaintenance(ctx context.Context, in *createMaintenanceInput) (*api.MaintenanceDetail, error) {
	b := in.Body
	n, err := a.node(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, b.Reason, "maintenance.create", "node/"+n.ID, "open a maintenance of node "+n.ID)
	if err != nil {
		return nil, err
	}
	tenant := broker.TenantStays
	if b.Tenant != "" {
		tenant = broker.MaintenanceTenant(b.Tenant)
	}
	if tenant == broker.TenantLeaves { // it releases an allocation
		if err := a.requireRole(ctx, admin, "open a maintenance for which the tenant leaves"); err != nil {
			return nil, err
		}
	}
	var m broker.Maintenance
	o := order{b, in.IdempotencyKey, "/maintenances", func(_ context.Context, err error) error { return err }}
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		m, err = maintenancerecords.Records{DB: a.c.DB}.Create(ctx, callerOf(ctx).actor(), broker.Maintenance{
			NodeID: n.ID, Category: broker.MaintenanceCategory(b.Category), Tenant: tenant, Planned: !b.From.IsZero(),
			Ticket: taskcatalog.Clean(strings.TrimSpace(b.Ticket), 100), Reason: reason, From: b.From, Until: b.Until,
		})
		return err
	})
	if err == nil && before != "" {
		m, err = a.maintenance(ctx, before)
	}
	if err != nil {
		return nil, err
	}
	return a.maintenanceDetail(ctx, m)
}

type noteMaintenanceInput struct {
	MaintenanceInput
	Body api.MaintenanceNoteAdd
}

func (a *API) noteMaintenance(ctx context.Context, in *noteMaintenanceInput) (*api.MaintenanceDetail, error) {
	m, err := a.maintenance(ctx, in.Maintenance)
	if err != nil {
		return nil, err
	}
	text := taskcatalog.Clean(strings.TrimSpace(in.Body.Text), 1000)
	if text == "" {
		return nil, broker.Errorf(broker.Invalid, "maintenance_invalid", "cannot add a note to maintenance %s: it has no text", m.ID)
	}
	if err := a.c.DB.NoteMaintenance(ctx, callerOf(ctx).actor(), m.ID, text); err != nil {
		return nil, err
	}
	return a.maintenanceDetail(ctx, m)
}

type closeMaintenanceInput struct {
	MaintenanceInput
	Body api.MaintenanceClose
}

// closeMaintenance closes an open maintenance, or cancels a planned one.
func (a *API) closeMaintenance(ctx context.Context, in *closeMaintenanceInput) (*api.MaintenanceDetail, error) {
	m, err := a.maintenance(ctx, in.Maintenance)
	if err != nil {
		return nil, err
	}
	if in.Body.Override {
		if err := a.requireRole(ctx, admin, "override the checks of a maintenance"); err != nil {
			return nil, err
		}
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "maintenance.close", "node/"+m.NodeID, "close maintenance "+m.ID)
	if err != nil {
		return nil, err
	}
	end := store.MaintenanceEnd{Reason: reason, Override: in.Body.Override}
	if m, err = a.c.DB.CloseMaintenance(ctx, callerOf(ctx).actor(), m.ID, end); err != nil {
		return nil, err
	}
	return a.maintenanceDetail(ctx, m)
}

func (a *API) maintenanceDetail(ctx context.Context, m broker.Maintenance) (*api.MaintenanceDetail, error) {
	of, err := a.maintenanceResources(ctx, m)
	if err != nil {
		return nil, err
	}
	notes, err := a.c.DB.MaintenanceNotes(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	out := &api.MaintenanceDetail{Maintenance: of[0], Notes: resources(notes, func(n broker.MaintenanceNote) api.MaintenanceNote {
		return api.MaintenanceNote{Number: n.Number, At: n.At, Author: n.Author, Text: n.Text}
	})}
	claim, err := a.c.DB.NodeClaim(ctx, m.NodeID)
	out.AllocationID = claim.ID
	return out, err
}

func (a *API) maintenanceResources(ctx context.Context, page ...broker.Maintenance) ([]api.Maintenance, error) {
	ids := make([]string, len(page))
	for i, m := range page {
		ids[i] = m.NodeID
	}
	names, err := a.c.DB.Hostnames(ctx, ids)
	now := a.c.Now()
	return resources(page, func(m broker.Maintenance) api.Maintenance {
		return api.Maintenance{
			ID: m.ID, NodeID: m.NodeID, Hostname: names[m.NodeID], Site: m.Site, Status: string(m.Status), Because: m.Because,
			Category: string(m.Category), Tenant: string(m.Tenant), Planned: m.Planned, Ticket: m.Ticket, Reason: m.Reason,
			CreatedBy: m.CreatedBy, CreatedAt: m.CreatedAt, From: m.From, Until: timeOrNull(m.Until), Overdue: m.Overdue(now),
			OpenedAt: timeOrNull(m.OpenedAt), ClosedAt: timeOrNull(m.ClosedAt), ClosedBy: m.ClosedBy,
			Checks: maintenanceChecks(m.Checks),
		}
	}), err
}

func maintenanceChecks(of broker.MaintenanceChecks) []api.MaintenanceCheck {
	out := []api.MaintenanceCheck{}
	for _, asked := range of.Asked {
		c := api.MaintenanceCheck{Check: string(asked)}
		for _, f := range of.Found {
			if f.Check == asked {
				c.Result, c.Code, c.Message = "failed", f.Code, f.Message
				if f.Passed {
					c.Result = "passed"
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// overdueMaintenances adds alerts for sites with maintenances that are open beyond their expected end.
func (a *API) overdueMaintenances(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.OverdueMaintenances(ctx, sites)
	for _, o := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "maintenance_overdue", Since: o.Since,
			Message: fmt.Sprintf("site %s: %d maintenances are open although their expected end has passed (hostler maintenance list --site %s)",
				o.Site, o.Maintenances, o.Site),
		})
	}
	return err
}
