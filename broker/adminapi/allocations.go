package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type createAllocationInput struct {
	ProjectInput
	RequestKey
	Body api.AllocationCreate
}

// createAllocation claims nodes for a project. Whatever makes them ready follows by itself.
func (a *API) createAllocation(ctx context.Context, in *createAllocationInput) (*api.Allocation, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	b := in.Body
	if err := checkLabels(b.Labels); err != nil {
		return nil, err
	}
	n := store.NewAllocation{
		ID: broker.NewTenantID(broker.AllocationPrefix, a.c.Now()), ProjectID: p.ID, EndsAt: b.EndsAt, Labels: b.Labels,
		AllocationRequest: broker.AllocationRequest{
			SKU: b.SKU, Nodes: b.Nodes, GPUs: b.GPUs, Site: b.Site, Image: b.Image,
			Arrangement: broker.Arrangement{Spread: b.Spread, Pack: b.Pack},
		},
		KeyIDs: slices.Compact(slices.Sorted(slices.Values(b.SSHKeyIDs))),
	}
	var made broker.Allocation
	o := order{b, in.IdempotencyKey, "/projects/" + p.ID + "/allocations", func(_ context.Context, err error) error { return err }}
	before, err := a.begin(withReason(ctx, b.Reason), o, func(ctx context.Context) error {
		if err := a.checkKeys(ctx, n); err != nil {
			return err
		}
		made, err = a.c.DB.CreateAllocation(ctx, callerOf(ctx).actor(), n)
		return err
	})
	if err == nil && before != "" {
		made, err = a.c.DB.ProjectAllocation(ctx, p.ID, before)
	}
	if err != nil {
		return nil, err
	}
	return a.tenantsView(ctx, made)
}

// checkKeys refuses keys that nobody could log in with. Codes: allocation_invalid, ssh_key_not_found.
func (a *API) checkKeys(ctx context.Context, n store.NewAllocation) error {
	if len(n.KeyIDs) == 0 {
		return broker.Errorf(broker.Invalid, "allocation_invalid",
			"cannot allocate SKU %s: ssh_key_ids is empty, and nobody could log in (name a key of a member, see hostler key list MEMBER)", n.SKU)
	}
	_, err := a.c.DB.AllocationKeys(ctx, broker.Allocation{ID: n.ID, ProjectID: n.ProjectID, KeyIDs: n.KeyIDs})
	return err
}

// AllocationPageInput selects a page of a list of allocations. The type is exported because huma
// ignores embedded structs with unexported names.
type AllocationPageInput struct {
	Status string   `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas"`
	SKU    string   `query:"sku" maxLength:"63"`
	Site   string   `query:"site" maxLength:"63"`
	Label  []string `query:"label,explode" maxItems:"16" doc:"key=value; an allocation must match all. A page looks at 1000 allocations, and may have fewer than limit, or none, although next is set"`
	Cursor string   `query:"cursor" maxLength:"64"`
	Limit  int      `query:"limit" minimum:"0" maximum:"1000"`
}

// filter is the page of the allocations of a project (empty: all) that the caller may see. Codes:
// site_forbidden, status_unknown, label_invalid.
func (in AllocationPageInput) filter(who caller, projectID string) (f store.AllocationFilter, err error) {
	f = store.AllocationFilter{ProjectID: projectID, SKU: in.SKU, After: in.Cursor, Limit: pageLimit(in.Limit)}
	switch {
	case who.Place.OfPlatform():
		f.Sites, err = visibleSites(who, in.Site)
	case in.Site != "": // a tenant sees its allocations at all sites
		f.Sites = []string{in.Site}
	}
	if err != nil {
		return f, err
	}
	for name := range strings.SplitSeq(in.Status, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(broker.AllocationStatuses, broker.AllocationStatus(name)) {
			return f, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such status of an allocation",
				taskcatalog.Clean(name, 40))
		}
		f.Statuses = append(f.Statuses, broker.AllocationStatus(name))
	}
	f.Labels, err = labelFilter(in.Label)
	return f, err
}

type allocationsInput struct {
	ProjectInput
	AllocationPageInput
}

func (a *API) listAllocations(ctx context.Context, in *allocationsInput) (*api.AllocationList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	f, err := in.filter(callerOf(ctx), p.ID)
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.Allocations(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.tenantsViews(ctx, page)
	return &api.AllocationList{Items: items, Next: next}, err
}

// AllocationInput names an allocation.
type AllocationInput struct {
	Allocation string `path:"allocation" maxLength:"64"`
}

type projectAllocationInput struct {
	ProjectInput
	AllocationInput
}

// allocation finds the named allocation of the named project, at a site that the caller may see.
// Another project's allocation is answered like one that does not exist.
func (a *API) allocation(ctx context.Context, project, id string) (broker.Allocation, error) {
	p, err := a.project(ctx, project)
	if err != nil {
		return broker.Allocation{}, err
	}
	found, err := a.c.DB.ProjectAllocation(ctx, p.ID, id)
	return seenBy(callerOf(ctx), found, err)
}

// seenBy hides an allocation at a site that a caller of the platform may not see.
func seenBy(who caller, found broker.Allocation, err error) (broker.Allocation, error) {
	if err == nil && who.Place.OfPlatform() && !who.MaySee(found.Site) {
		return broker.Allocation{}, broker.AllocationNotFound(found.ID)
	}
	return found, err
}

func (a *API) showAllocation(ctx context.Context, in *projectAllocationInput) (*api.Allocation, error) {
	found, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	return a.tenantsView(ctx, found)
}

type releaseAllocationInput struct {
	ProjectInput
	AllocationInput
	Body api.ReasonBody
}

func (a *API) releaseAllocation(ctx context.Context, in *releaseAllocationInput) (*api.Allocation, error) {
	found, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	by, reason := broker.AllocationUser, taskcatalog.Clean(in.Body.Reason, 500)
	if callerOf(ctx).Place.OfPlatform() { // the platform takes away what is a tenant's
		by = broker.AllocationAdmin
		if reason, err = a.reasonFor(ctx, reason, "allocation.transition", "allocation/"+found.ID, "release allocation "+found.ID); err != nil {
			return nil, err
		}
	}
	if found, err = a.release(ctx, found, store.AllocationChange{By: by, Reason: reason}); err != nil {
		return nil, err
	}
	return a.tenantsView(ctx, found)
}

// release begins the release of an allocation, or begins a failed release again. An allocation that
// is being released or was released stays as it is.
func (a *API) release(ctx context.Context, found broker.Allocation, c store.AllocationChange) (broker.Allocation, error) {
	if found.Status == broker.AllocationReleased {
		return found, nil
	}
	who := callerOf(ctx)
	c.To, c.CorrelationID = broker.AllocationReleasing, who.correlationID
	moved, err := a.c.DB.TransitionAllocation(ctx, who.actor(), found.ID, c)
	if err != nil && moved.Status == broker.AllocationReleased { // it was released a moment ago
		return moved, nil
	}
	return moved, err
}

// tenantsView is the read model of an allocation for its tenant.
func (a *API) tenantsView(ctx context.Context, of broker.Allocation) (*api.Allocation, error) {
	views, err := a.tenantsViews(ctx, []broker.Allocation{of})
	if err != nil {
		return nil, err
	}
	return &views[0], nil
}

// tenantsViews returns the read models of a page. The number of queries does not depend on the
// number of allocations.
func (a *API) tenantsViews(ctx context.Context, page []broker.Allocation) ([]api.Allocation, error) {
	var usable []string
	for _, of := range page {
		if of.Status == broker.AllocationProvisioning || of.Status == broker.AllocationActive {
			usable = append(usable, of.ID)
		}
	}
	logins, err := a.c.DB.AllocationLogins(ctx, usable)
	if err != nil {
		return nil, err
	}
	refused, err := a.c.DB.RefusedKeys(ctx, page)
	if err != nil {
		return nil, err
	}
	return resources(page, func(of broker.Allocation) api.Allocation {
		out := allocationResource(of)
		for _, k := range refused[of.ID] {
			out.RefusedKeys = append(out.RefusedKeys, api.AllocationKey{ID: k.ID, Fingerprint: k.Fingerprint})
		}
		for _, l := range logins[of.ID] {
			login := api.AllocationLogin{Hostname: l.Hostname, Address: l.Address, HostKey: l.HostKey, Username: broker.AllocationAccount}
			out.Logins = append(out.Logins, login)
		}
		return out
	}), nil
}

func allocationResource(of broker.Allocation) api.Allocation {
	return api.Allocation{
		ID: of.ID, ProjectID: of.ProjectID, Status: string(of.Status), SKU: of.SKU, Nodes: of.Nodes, GPUs: of.GPUs, Site: of.Site,
		Image: of.Image, SSHKeyIDs: of.KeyIDs, Labels: of.Labels, Logins: []api.AllocationLogin{}, RefusedKeys: []api.AllocationKey{},
		Code: of.Code, Message: of.Failure(), CertificateIDs: of.CertificateIDs, EndsAt: timeOrNull(of.EndsAt), RequestedAt: of.RequestedAt,
		ProvisioningAt: timeOrNull(of.ProvisioningAt), ActiveAt: timeOrNull(of.ActiveAt), ReleasingAt: timeOrNull(of.ReleasingAt),
		ReleasedAt: timeOrNull(of.ReleasedAt), FailedAt: timeOrNull(of.FailedAt), ReleaseFailedAt: timeOrNull(of.ReleaseFailedAt),
		GoesOnAt: timeOrNull(of.GoesOnAt), PassedAt: timeOrNull(of.PassedAt),
	}
}

// waitingReleases adds alerts for sites with releases that wait until a turnover may begin.
func (a *API) waitingReleases(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.WaitingReleases(ctx, sites)
	for _, w := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "turnovers_waiting", Since: w.Since,
			Message: fmt.Sprintf("site %s: %d released allocations wait until a turnover of their nodes may begin (hostler run list shows the turnovers under way and those that stopped; automatic_turnovers_at_once of the site's profile is the limit)",
				w.Site, w.Releases),
		})
	}
	return err
}

// failedReleases adds alerts for sites with allocations whose release failed.
func (a *API) failedReleases(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.FailedReleases(ctx, sites)
	for _, f := range all {
		goOn := ""
		if f.GoOn > 0 {
			goOn = fmt.Sprintf("; %d of them go on by themselves without the operation of their end, the first at %s", f.GoOn,
				f.Next.UTC().Format(time.RFC3339))
		}
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "release_failed", Since: f.Since,
			Message: fmt.Sprintf("site %s: %d allocations hold their nodes, because their release failed%s (hostler allocation list --status release_failed; repair what stopped the turnovers or the operations of the end, see hostler run list; then hostler allocation force-release ID)",
				cmp.Or(f.Site, "none"), f.Allocations, goOn),
		})
	}
	return err
}
