package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// ReservationFilter narrows a list of reservations; empty fields narrow nothing.
type ReservationFilter struct {
	SKU   string
	Ended bool // those that are over or were ended, too
}

func (f ReservationFilter) list(ctx context.Context, c *Client, path, project string) (*api.PlatformReservationList, error) {
	q := endedQuery(f.Ended)
	for name, values := range query("sku", f.SKU, "project", project) {
		q[name] = values
	}
	all := &api.PlatformReservationList{Items: []api.PlatformReservation{}}
	return all, eachPage(ctx, c, path, q, func(l *api.PlatformReservationList) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// ProjectReservations lists a project's reservations.
func (c *Client) ProjectReservations(ctx context.Context, project string, f ReservationFilter) (*api.ReservationList, error) {
	all, err := f.list(ctx, c, at("projects", project, "reservations"), "")
	if err != nil {
		return nil, err
	}
	out := &api.ReservationList{Items: make([]api.Reservation, len(all.Items))}
	for i, v := range all.Items {
		out.Items[i] = v.Reservation
	}
	return out, nil
}

// ProjectReservation returns a reservation of a project.
func (c *Client) ProjectReservation(ctx context.Context, project, id string) (*api.Reservation, error) {
	return fetch[api.Reservation](ctx, c, at("projects", project, "reservations", id), nil)
}

// Reservations lists the reservations of all projects, or of one, with what is kept for them. It needs a
// token of the platform.
func (c *Client) Reservations(ctx context.Context, project string, f ReservationFilter) (*api.PlatformReservationList, error) {
	return f.list(ctx, c, at("reservations"), project)
}

// Reservation returns a reservation of any project. It needs a token of the platform.
func (c *Client) Reservation(ctx context.Context, id string) (*api.PlatformReservation, error) {
	return fetch[api.PlatformReservation](ctx, c, at("reservations", id), nil)
}

// CreateReservation reserves nodes for a project. It needs a platform_admin's token.
func (c *Client) CreateReservation(ctx context.Context, r api.ReservationCreate) (*api.PlatformReservation, error) {
	return begin[api.PlatformReservation](ctx, c, at("reservations"), r)
}

// EndReservation ends a reservation. It needs a platform_admin's token.
func (c *Client) EndReservation(ctx context.Context, id, reason string) (*api.PlatformReservation, error) {
	return submit[api.PlatformReservation](ctx, c, http.MethodPost, at("reservations", id, "end"), api.ReasonBody{Reason: reason})
}
