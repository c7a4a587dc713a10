package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/availability"
	"github.com/hostler/hostler/broker/store"
)

// ReservationPageInput selects a page of a list of reservations. The type is exported because huma
// ignores embedded structs with unexported names.
type ReservationPageInput struct {
	SKU    string `query:"sku" maxLength:"63"`
	Ended  bool   `query:"ended" doc:"list what is over or was ended, too"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (in ReservationPageInput) filter(projectID string) store.ReservationFilter {
	return store.ReservationFilter{ProjectID: projectID, SKU: in.SKU, Ended: in.Ended, After: in.Cursor, Limit: pageLimit(in.Limit)}
}

type projectReservationsInput struct {
	ProjectInput
	ReservationPageInput
}

func (a *API) listProjectReservations(ctx context.Context, in *projectReservationsInput) (*api.ReservationList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	f := in.filter(p.ID)
	f.Sites = callerOf(ctx).reservedSites()
	page, next, err := a.c.DB.Reservations(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.tenantsReservations(ctx, p.ID, page...)
	return &api.ReservationList{Items: items, Next: next}, err
}

// reservedSites are the sites whose reservations a caller may see; nil: all. A project sees its own, wherever.
func (c caller) reservedSites() []string {
	if c.Place.OfPlatform() {
		return c.sites()
	}
	return nil
}

// ReservationInput names a reservation.
type ReservationInput struct {
	Reservation string `path:"reservation" maxLength:"64"`
}

type projectReservationInput struct {
	ProjectInput
	ReservationInput
}

func (a *API) showProjectReservation(ctx context.Context, in *projectReservationInput) (*api.Reservation, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	r, err := a.reservation(ctx, p.ID, in.Reservation)
	if err != nil {
		return nil, err
	}
	views, err := a.tenantsReservations(ctx, p.ID, r)
	if err != nil {
		return nil, err
	}
	return &views[0], nil
}

// reservation finds a reservation of a project (empty: of any) that the caller may see. Any other one is
// answered like one that does not exist.
func (a *API) reservation(ctx context.Context, projectID, id string) (broker.Reservation, error) {
	r, err := a.c.DB.Reservation(ctx, projectID, id)
	if who := callerOf(ctx); err == nil && r.Site != "" && who.Place.OfPlatform() && !who.MaySee(r.Site) {
		return broker.Reservation{}, broker.ReservationNotFound(id)
	}
	return r, err
}

type reservationsInput struct {
	ReservationPageInput
	Project string `query:"project" maxLength:"130" doc:"only reservations of this project: an id, a name, or ORGANISATION/NAME"`
}

func (a *API) listReservations(ctx context.Context, in *reservationsInput) (*api.PlatformReservationList, error) {
	projectID := ""
	if in.Project != "" {
		p, err := a.project(ctx, in.Project)
		if err != nil {
			return nil, err
		}
		projectID = p.ID
	}
	f := in.filter(projectID)
	f.Sites = callerOf(ctx).reservedSites()
	page, next, err := a.c.DB.Reservations(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.platformReservations(ctx, page...)
	return &api.PlatformReservationList{Items: items, Next: next}, err
}

func (a *API) showReservation(ctx context.Context, in *ReservationInput) (*api.PlatformReservation, error) {
	r, err := a.reservation(ctx, "", in.Reservation)
	if err != nil {
		return nil, err
	}
	return a.platformReservation(ctx, r)
}

type createReservationInput struct {
	RequestKey
	Body api.ReservationCreate
}

func (a *API) createReservation(ctx context.Context, in *createReservationInput) (*api.PlatformReservation, error) {
	b := in.Body
	p, err := a.project(ctx, b.Project)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, b.Reason, "reservation.create", "project/"+p.ID, "reserve nodes for project "+p.Name)
	if err != nil {
		return nil, err
	}
	var made broker.Reservation
	o := order{b, in.IdempotencyKey, "/reservations", func(_ context.Context, err error) error { return err }}
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		made, err = a.c.DB.CreateReservation(ctx, callerOf(ctx).actor(), broker.Reservation{
			ID: broker.NewTenantID(broker.ReservationPrefix, a.c.Now()), ProjectID: p.ID, SKU: b.SKU, Site: b.Site, Nodes: b.Nodes,
			From: b.From, To: b.To,
		}, reason)
		return err
	})
	if err == nil && before != "" {
		made, err = a.reservation(ctx, p.ID, before)
	}
	if err != nil {
		return nil, err
	}
	return a.platformReservation(ctx, made)
}

type endReservationInput struct {
	ReservationInput
	Body api.ReasonBody
}

func (a *API) endReservation(ctx context.Context, in *endReservationInput) (*api.PlatformReservation, error) {
	r, err := a.reservation(ctx, "", in.Reservation)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "reservation.end", "reservation/"+r.ID, "end reservation "+r.ID)
	if err != nil {
		return nil, err
	}
	if r, err = a.c.DB.EndReservation(ctx, callerOf(ctx).actor(), r.ID, reason); err != nil {
		return nil, err
	}
	return a.platformReservation(ctx, r)
}

// tenantsReservations returns the read models of reservations of a project for their tenant. Reservations
// of others are not read: the time of the answer would tell how many there are.
func (a *API) tenantsReservations(ctx context.Context, projectID string, page ...broker.Reservation) ([]api.Reservation, error) {
	inForce, held, err := a.c.DB.InForce(ctx, projectID, "")
	kept := map[string]broker.Kept{}
	for sku, rs := range inForce {
		kept[sku] = broker.Keep(rs, held[sku], nil) // what is free is no tenant's to know
	}
	views := a.reservationViews(page, kept)
	return resources(views, func(v api.PlatformReservation) api.Reservation { return v.Reservation }), err
}

// platformReservations returns the read models of reservations for the platform.
func (a *API) platformReservations(ctx context.Context, page ...broker.Reservation) ([]api.PlatformReservation, error) {
	kept, err := availability.KeptNodes(ctx, a.c.DB, "")
	return a.reservationViews(page, kept), err
}

func (a *API) platformReservation(ctx context.Context, r broker.Reservation) (*api.PlatformReservation, error) {
	views, err := a.platformReservations(ctx, r)
	if err != nil {
		return nil, err
	}
	return &views[0], nil
}

func (a *API) reservationViews(page []broker.Reservation, kept map[string]broker.Kept) []api.PlatformReservation {
	now := a.c.Now()
	return resources(page, func(r broker.Reservation) (out api.PlatformReservation) {
		out.Reservation = api.Reservation{
			ID: r.ID, ProjectID: r.ProjectID, Status: string(r.Status(now)), SKU: r.SKU, Site: r.Site, Nodes: r.Nodes,
			From: r.From, To: r.To, CreatedAt: r.CreatedAt, EndedAt: timeOrNull(r.EndedAt),
		}
		for _, k := range kept[r.SKU].Reservations {
			if k.ID == r.ID {
				out.Held, out.Kept, out.Missing = k.Held, k.Kept, k.Missing()
			}
		}
		return out
	})
}

// shortReservations adds an alert for each reservation in force that lacks nodes, of those that the caller
// of a status may see. The number of a SKU's reservations is bounded.
func (a *API) shortReservations(ctx context.Context, out *api.Status) error {
	kept, err := availability.KeptNodes(ctx, a.c.DB, "")
	who := callerOf(ctx)
	for _, sku := range slices.Sorted(maps.Keys(kept)) {
		for _, r := range kept[sku].Reservations {
			if r.Missing() == 0 || r.Site != "" && !who.MaySee(r.Site) || out.Site != "" && r.Site != out.Site {
				continue
			}
			out.Alerts = append(out.Alerts, api.Alert{
				Code: "reservation_short", Since: r.From,
				Message: fmt.Sprintf("reservation %s of project %s: %d of %d nodes of SKU %s at %s are neither held by the project nor free (hostler allocation explain --sku %s names what stands in the way; hostler allocation list --sku %s shows who has nodes)",
					r.ID, r.ProjectID, r.Missing(), r.Nodes, r.SKU, cmp.Or(r.Site, "any site"), r.SKU, r.SKU),
			})
		}
	}
	return err
}
