package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// maxReservations is how many reservations of a SKU may be planned or in force. Each placement of the
// SKU reads all of them.
const maxReservations = 100

// reservationGate is the lock that a transaction holds alone, until its commit, to reserve nodes, and
// that placements share. A reservation so sees all allocations of before, and each later placement
// sees the reservation.
const reservationGate = leadLock + 4

const reservationColumns = `id, project_id, sku, site, nodes, from_at, to_at, created_at, ended_at`

func scanReservation(row sqlkit.Row) (r broker.Reservation, err error) {
	err = row.Scan(&r.ID, &r.ProjectID, &r.SKU, &r.Site, &r.Nodes, sqlkit.ScanMicros(&r.From), sqlkit.ScanMicros(&r.To),
		sqlkit.ScanMicros(&r.CreatedAt), sqlkit.ScanMicros(&r.EndedAt))
	return r, err
}

// CreateReservation stores a reservation with its ID, project, SKU, site, number of nodes and period. A
// period whose beginning has passed begins now. The context's RequestKey is taken with it. Codes:
// reservation_invalid, reservation_overbooked, reservation_limit, sku_not_found, sku_unavailable, site_not_found,
// project_not_found, project_ended, idempotency_conflict.
func (db *DB) CreateReservation(
	ctx context.Context, actor broker.Actor, r broker.Reservation, reason string,
) (made broker.Reservation, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made, err = t.createReservation(ctx, actor, r, reason)
		return err
	})
	return made, err
}

func (t *tx) createReservation(ctx context.Context, actor broker.Actor, r broker.Reservation, reason string) (broker.Reservation, error) {
	e := broker.AuditEntry{Actor: actor.Name, Action: "reservation.create", Subject: "project/" + r.ProjectID}
	if err := t.takeRequestKey(ctx, r.ID); err != nil {
		return r, err
	}
	if _, err := t.liveProject(ctx, r.ProjectID, t.ForKeyShare()); err != nil {
		return r, err
	}
	if err := t.lock(ctx, t.GateAlone(), reservationGate); err != nil {
		return r, err
	}
	now := t.clock().UTC().Truncate(time.Microsecond)
	r.CreatedAt, r.EndedAt = now, time.Time{}
	if r.From, r.To = r.From.UTC().Truncate(time.Microsecond), r.To.UTC().Truncate(time.Microsecond); r.From.Before(now) {
		r.From = now
	}
	if err := t.mayReserve(ctx, &r); err != nil {
		if no, ok := errors.AsType[*broker.Error](err); ok {
			return r, refuse(no, e)
		}
		return r, err
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO reservations (`+reservationColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)`,
		r.ID, r.ProjectID, r.SKU, r.Site, r.Nodes, sqlkit.Micros(r.From), sqlkit.Micros(r.To), sqlkit.Micros(r.CreatedAt)); err != nil {
		return r, err
	}
	e.Subject, e.Reason = "reservation/"+r.ID, reason
	e.After = small("project", r.ProjectID, "sku", r.SKU, "site", r.Site, "nodes", r.Nodes, "from", reachedText(r.From), "to", reachedText(r.To))
	return r, t.audit(ctx, e)
}

// mayReserve refuses a reservation that cannot be kept, and sets the name of its site. Codes: as of
// CreateReservation.
func (t *tx) mayReserve(ctx context.Context, r *broker.Reservation) error {
	if r.ID == "" || r.Nodes < 1 || !r.To.After(r.From) {
		return broker.Errorf(broker.Invalid, "reservation_invalid",
			"cannot reserve SKU %s: the reservation needs an id, at least one node, and an end after its beginning and after now", r.SKU)
	}
	s, err := sku(ctx, t, r.SKU, t.ForKeyShare())
	if err != nil {
		return err
	}
	if r.Site != "" {
		at, err := site(ctx, t, r.Site, "")
		if err != nil {
			return err
		}
		r.Site = at.Name
	}
	if err := s.Reserves(*r); err != nil {
		return err
	}
	others, err := t.reservations(ctx, r.SKU, r.CreatedAt)
	if err != nil {
		return err
	}
	if len(others) >= maxReservations {
		return broker.Errorf(broker.Refused, "reservation_limit",
			"cannot reserve SKU %s: it has %d reservations that are planned or in force (end one first: hostler reservation end)", r.SKU, len(others))
	}
	nodes, err := nodesBySite(ctx, t, s)
	if err != nil {
		return err
	}
	return r.Fits(others, nodes)
}

// nodesBySite counts the nodes of a SKU that are to stay, at the sites where the SKU is offered.
func nodesBySite(ctx context.Context, r sqlkit.Runner, s broker.SKU) (map[string]int, error) {
	w := sqlkit.Where{Terms: []string{"status NOT IN ('removing', 'deleted')"}}
	w.Add("sku = ?", s.ID)
	if len(s.Offer.Sites) > 0 {
		sqlkit.In(&w, "site", s.Offer.Sites)
	}
	out := map[string]int{}
	_, err := sqlkit.Collect(ctx, r, func(row sqlkit.Row) (none struct{}, err error) {
		var site string
		var n int
		err = row.Scan(&site, &n)
		out[site] = n
		return none, err
	}, `SELECT site, COUNT(*) FROM nodes`+w.String()+` GROUP BY site`, w.Args...)
	return out, err
}

// reservations returns the reservations of a SKU that are planned or in force at a time, and locks them.
func (t *tx) reservations(ctx context.Context, sku string, at time.Time) ([]broker.Reservation, error) {
	return sqlkit.Collect(ctx, t, scanReservation, `SELECT `+reservationColumns+` FROM reservations
		WHERE sku = $1 AND ended_at = 0 AND to_at > $2 ORDER BY created_at, id`+t.ForUpdate(), sku, sqlkit.Micros(at))
}

// heldNodes counts the nodes of a SKU that the projects of reservations hold or are about to hold. A node
// that a project has given back is of no more use to the project, however long its turnover takes.
func heldNodes(ctx context.Context, r sqlkit.Runner, sku string, of []broker.Reservation) ([]broker.HeldNodes, error) {
	if len(of) == 0 {
		return nil, nil
	}
	w := sqlkit.Where{Terms: []string{"status IN ('requested', 'provisioning', 'active')"}}
	w.Add("sku = ?", sku)
	projects := make([]string, len(of))
	for i, r := range of {
		projects[i] = r.ProjectID
	}
	sqlkit.In(&w, "project_id", projects)
	return sqlkit.Collect(ctx, r, func(row sqlkit.Row) (h broker.HeldNodes, err error) {
		return h, row.Scan(&h.ProjectID, &h.Site, &h.Nodes)
	}, `SELECT project_id, site, SUM(nodes) FROM tenant_allocations`+w.String()+` GROUP BY project_id, site ORDER BY project_id, site`, w.Args...)
}

// InForce returns the reservations in force of a project and a SKU (empty: of all), and the nodes that
// their projects hold, by SKU.
func (db *DB) InForce(ctx context.Context, projectID, sku string) (map[string][]broker.Reservation, map[string][]broker.HeldNodes, error) {
	now := sqlkit.Micros(db.Now())
	w := sqlkit.Where{Terms: []string{"ended_at = 0"}}
	w.Add("to_at > ?", now)
	w.Add("from_at <= ?", now)
	w.Equal("project_id", projectID)
	w.Equal("sku", sku)
	all, err := sqlkit.Collect(ctx, db.reader(), scanReservation, `SELECT `+reservationColumns+` FROM reservations`+w.String()+
		` ORDER BY created_at, id`, w.Args...)
	if err != nil {
		return nil, nil, err
	}
	bySKU, held := map[string][]broker.Reservation{}, map[string][]broker.HeldNodes{}
	for _, r := range all {
		bySKU[r.SKU] = append(bySKU[r.SKU], r)
	}
	for id, of := range bySKU {
		if held[id], err = heldNodes(ctx, db.reader(), id, of); err != nil {
			return nil, nil, err
		}
	}
	return bySKU, held, nil
}

// ReservationFilter selects reservations; an empty field adds no condition.
type ReservationFilter struct {
	ProjectID, SKU string
	Sites          []string // nil: all; a reservation of any site is always among them
	Ended          bool     // those that are over or were ended, too
	After          string   // cursor: the id of the last reservation of the previous page
	Limit          int      // 0: all
}

// Reservations returns a page, ordered by id, and the cursor of the next page ("" at the end).
func (db *DB) Reservations(ctx context.Context, f ReservationFilter) ([]broker.Reservation, string, error) {
	var w sqlkit.Where
	w.Equal("project_id", f.ProjectID)
	w.Equal("sku", f.SKU)
	if f.Sites != nil {
		sqlkit.In(&w, "site", append([]string{""}, f.Sites...))
	}
	if !f.Ended {
		w.Add("ended_at = 0")
		w.Add("to_at > ?", sqlkit.Micros(db.Now()))
	}
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	return pageOf(ctx, db, scanReservation, func(r broker.Reservation) string { return r.ID },
		`SELECT `+reservationColumns+` FROM reservations`, w, f.Limit)
}

// Reservation finds a reservation of a project, or with an empty project one of any. One statement
// looks, so that another project's reservation and one that never was get the same answer after the
// same time. Code: reservation_not_found.
func (db *DB) Reservation(ctx context.Context, projectID, id string) (broker.Reservation, error) {
	var w sqlkit.Where
	w.Add("id = ?", id)
	w.Equal("project_id", projectID)
	r, err := scanReservation(db.reader().QueryRowContext(ctx, `SELECT `+reservationColumns+` FROM reservations`+w.String(), w.Args...))
	if errors.Is(err, sql.ErrNoRows) {
		return r, broker.ReservationNotFound(id)
	}
	return r, err
}

// EndReservation ends a reservation now. Ending one again, or one that is over, changes nothing. Code:
// reservation_not_found.
func (db *DB) EndReservation(ctx context.Context, actor broker.Actor, id, reason string) (r broker.Reservation, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		r, err = scanReservation(t.QueryRowContext(ctx, `SELECT `+reservationColumns+` FROM reservations WHERE id = $1`+t.ForUpdate(), id))
		if errors.Is(err, sql.ErrNoRows) {
			return broker.ReservationNotFound(id)
		}
		if err != nil {
			return err
		}
		return t.endReservation(ctx, actor, &r, reason)
	})
	return r, err
}

// endReservationsOf ends the reservations of a project whose row is locked.
func (t *tx) endReservationsOf(ctx context.Context, actor broker.Actor, projectID, reason string) error {
	all, err := sqlkit.Collect(ctx, t, scanReservation, `SELECT `+reservationColumns+` FROM reservations
		WHERE project_id = $1 AND ended_at = 0 AND to_at > $2 ORDER BY created_at, id`+t.ForUpdate(), projectID, sqlkit.Micros(t.clock()))
	for i := range all {
		if err = errors.Join(err, t.endReservation(ctx, actor, &all[i], reason)); err != nil {
			return err
		}
	}
	return err
}

// endReservation ends a locked reservation, unless it is over or has ended.
func (t *tx) endReservation(ctx context.Context, actor broker.Actor, r *broker.Reservation, reason string) error {
	now := t.clock().UTC().Truncate(time.Microsecond)
	if s := r.Status(now); s == broker.ReservationEnded || s == broker.ReservationOver {
		return nil
	}
	e := broker.AuditEntry{
		Actor: actor.Name, Action: "reservation.end", Subject: "reservation/" + r.ID, Reason: reason, Before: small("status", r.Status(now)),
	}
	r.EndedAt = now
	if _, err := t.ExecContext(ctx, `UPDATE reservations SET ended_at = $1 WHERE id = $2`, sqlkit.Micros(now), r.ID); err != nil {
		return err
	}
	e.After = small("status", r.Status(now), "at", reachedText(now))
	return t.audit(ctx, e)
}
