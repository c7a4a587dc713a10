package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// The hints about events. ID is empty.
const (
	HintOutbox        HintKind = "outbox"         // an event was written, and has no place yet
	HintEvents        HintKind = "events"         // events got their place
	HintProjectEvents HintKind = "project_events" // events that projects may read got their place
)

// Types of events that are not declared beside the rest of their feature.
const (
	NodeStatusEvent       = "node.status.changed"
	IdentityConflictEvent = "node.identity_conflict"
	DriftDetectedEvent    = "node.drift.detected"
	DriftResolvedEvent    = "node.drift.resolved"
	ReconcileStoppedEvent = "site.reconciliation.stopped"
	ReconcileResumedEvent = "site.reconciliation.resumed"
	ForceReleasedEvent    = "allocation.force_released"
)

// AllSites is the site of an event that concerns all sites.
const AllSites = "*"

// OutboxEvent is an event with a place, which readers can get.
type OutboxEvent struct {
	Position      int64
	At            time.Time // when the event was written, at the end of its transaction
	Type          string
	Source        string
	Subject       string
	Site          string // empty: none; AllSites
	Data          json.RawMessage
	CorrelationID string
}

// OutboxFilter selects events; an empty field adds no condition.
type OutboxFilter struct {
	After     int64
	Types     []string
	Subject   string
	Sites     []string // nil: all; else these sites, and events of all sites
	ProjectID string   // only events that this project may read
	Limit     int      // 0: 100
}

// told is an event to write.
type told struct {
	chain.Message
	Source        string // empty: the broker's
	Site          string
	CorrelationID string
}

// send puts an event into the outbox, in the transaction of the change that the event announces.
// Its time is the clock's present time, after all waits of the transaction.
func (t *tx) send(ctx context.Context, m told) error {
	if m.Source == "" {
		m.Source = "hostler/broker"
	}
	t.hint(HintOutbox, "")
	_, err := t.ExecContext(ctx,
		`INSERT INTO outbox (at, type, source, subject, site, data, correlation_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		sqlkit.Micros(t.clock()), m.Type, m.Source, m.Subject, m.Site, sqlkit.JSON(m.Data), m.CorrelationID)
	return err
}

// tellStatus announces a changed node status, or, if before is empty, a new node.
func (t *tx) tellStatus(ctx context.Context, n broker.Node, before broker.NodeStatus, by, correlationID string) error {
	t.hint(HintNode, n.ID)
	return t.send(ctx, told{
		Site: n.Site, CorrelationID: correlationID,
		Message: chain.Message{Type: NodeStatusEvent, Subject: "node/" + n.ID, Data: map[string]any{
			"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "from": before, "to": n.Status,
			"reason": n.StatusReason, "turnover_owed": n.TurnoverOwed, "by": by,
		}},
	})
}

// PlaceEvents gives up to limit committed events their place, in the order of writing; an event
// that commits late comes at the end. It returns the number placed. Without unplaced events it only
// reads. An event about an allocation's status or an operation also gets its project, here and not when
// it is written, so that events of a broker of an earlier release get it, too.
func (db *DB) PlaceEvents(ctx context.Context, limit int) (placed int64, err error) {
	var waiting bool
	err = db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE position = 0)`).Scan(&waiting)
	if err != nil || !waiting {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		placed = 0
		var tip int64
		if err := t.QueryRowContext(ctx, `SELECT position FROM outbox_tip WHERE one = 1`+t.ForUpdate()).Scan(&tip); err != nil {
			return err
		}
		var err error
		if placed, err = sqlkit.Changed(t.ExecContext(ctx, `UPDATE outbox SET position = $1 + w.nth,
			project_id = CASE WHEN type LIKE 'provisioning.%' AND subject LIKE 'allocation/%' THEN
				COALESCE((SELECT a.project_id FROM tenant_allocations a WHERE a.id = SUBSTR(outbox.subject, 12)), '')
				WHEN type LIKE 'operation.%' AND subject LIKE 'operation/%' THEN
				COALESCE((SELECT o.project_id FROM operations o WHERE o.id = SUBSTR(outbox.subject, 11)), '') ELSE '' END
			FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS nth FROM outbox WHERE position = 0 ORDER BY id LIMIT $2) AS w
			WHERE outbox.id = w.id`, tip, limit)); err != nil || placed == 0 {
			return err
		}
		t.hint(HintEvents, "")
		var ofProjects bool
		if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM outbox WHERE position > 0 AND position > $1 AND project_id <> '')`,
			tip).Scan(&ofProjects); err != nil {
			return err
		}
		if ofProjects {
			t.hint(HintProjectEvents, "")
		}
		_, err = t.ExecContext(ctx, `UPDATE outbox_tip SET position = $1 WHERE one = 1`, tip+placed)
		return err
	})
	return placed, err
}

// OutboxEnds returns the position of the newest event, and the position of the newest event that is
// no longer kept; 0: none.
func (db *DB) OutboxEnds(ctx context.Context) (newest, forgotten int64, err error) {
	return outboxEnds(ctx, db.reader())
}

func outboxEnds(ctx context.Context, r sqlkit.Runner) (newest, forgotten int64, err error) {
	err = r.QueryRowContext(ctx, `SELECT position, forgotten FROM outbox_tip WHERE one = 1`).Scan(&newest, &forgotten)
	return newest, forgotten, err
}

// lostEvent reports whether an event of this position was, or could have been, given out after the
// backup from which the database was restored.
func (db *DB) lostEvent(ctx context.Context, position int64) (lost bool, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM restores WHERE events_upto < $1 AND events_from > $1)`,
		position).Scan(&lost)
	return lost, err
}

// Outbox returns a page of events in order, and the last examined position, which may be past the
// last event that matches the filter. A page that would have a gap is refused. Codes:
// events_forgotten, event_unknown.
func (db *DB) Outbox(ctx context.Context, f OutboxFilter) (page []OutboxEvent, upTo int64, err error) {
	newest, _, err := db.OutboxEnds(ctx)
	switch {
	case err != nil:
		return nil, f.After, err
	case f.After > newest:
		return nil, f.After, broker.Errorf(broker.Refused, "event_unknown",
			"cannot continue after event %d: the newest event is %d (if the broker was restored from a backup, read the current state again and continue after event %d)", f.After, newest, newest)
	case f.After == newest:
		return nil, newest, nil
	}
	if lost, err := db.lostEvent(ctx, f.After); err != nil {
		return nil, f.After, err
	} else if lost {
		return nil, f.After, broker.Errorf(broker.Refused, "event_unknown",
			"cannot continue after event %d: the broker was restored from a backup taken before that event (read the current state again and continue after event %d)", f.After, newest)
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	var w sqlkit.Where
	w.Add("position > 0") // as the indexes require
	w.Add("position > ?", f.After)
	w.Add("position <= ?", newest)
	sqlkit.In(&w, "type", f.Types)
	w.Equal("subject", f.Subject)
	if f.ProjectID != "" {
		w.Add("project_id <> ''") // as the index requires
		w.Equal("project_id", f.ProjectID)
	}
	if f.Sites != nil {
		sqlkit.In(&w, "site", append([]string{AllSites}, f.Sites...))
	}
	page, err = sqlkit.Collect(ctx, db.reader(), scanOutbox,
		`SELECT position, at, type, source, subject, site, data, correlation_id FROM outbox`+w.String()+` ORDER BY position`+
			w.Limit(f.Limit), w.Args...)
	if err != nil {
		return nil, f.After, err
	}
	// Read after the page, to notice events that were deleted meanwhile.
	_, forgotten, err := db.OutboxEnds(ctx)
	switch {
	case err != nil:
		return nil, f.After, err
	case f.After < forgotten:
		return nil, f.After, broker.Errorf(broker.Refused, "events_forgotten",
			"cannot continue after event %d: events up to %d are no longer kept (read the current state again and continue after event %d)",
			f.After, forgotten, forgotten)
	case len(page) == f.Limit:
		newest = page[len(page)-1].Position
	}
	return page, newest, nil
}

func scanOutbox(row sqlkit.Row) (e OutboxEvent, err error) {
	err = row.Scan(&e.Position, sqlkit.ScanMicros(&e.At), &e.Type, &e.Source, &e.Subject, &e.Site, sqlkit.ScanRawJSON(&e.Data),
		&e.CorrelationID)
	return e, err
}

// ForgetEvents deletes at most limit events, oldest first: events written before a time, and the
// excess over most, the number of events to keep. It keeps what the named relay has not passed on
// (empty: there is none). It returns the number deleted.
func (db *DB) ForgetEvents(ctx context.Context, before time.Time, most int64, limit int64, relay string) (gone int64, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		var newest, forgotten int64
		if err := t.QueryRowContext(ctx, `SELECT position, forgotten FROM outbox_tip WHERE one = 1`+t.ForUpdate()).Scan(&newest,
			&forgotten); err != nil {
			return err
		}
		var first, kept sql.NullInt64
		if err := t.QueryRowContext(ctx, `SELECT MIN(position) FROM outbox WHERE position > 0`).Scan(&first); err != nil {
			return err
		}
		if !first.Valid {
			gone = 0
			return nil
		}
		forgotten = max(forgotten, first.Int64-1) // positions skipped by a restore do not count
		until := newest
		if err := t.QueryRowContext(ctx,
			`SELECT MIN(position) FROM outbox WHERE position > 0 AND position > $1 AND position <= $2 AND at >= $3`,
			forgotten, forgotten+limit, sqlkit.Micros(before)).Scan(&kept); err != nil {
			return err
		} else if kept.Valid {
			until = kept.Int64 - 1
		}
		gaps, err := t.gaps(ctx)
		if err != nil {
			return err
		}
		relayed, err := t.relayed(ctx, relay)
		if err != nil {
			return err
		}
		until = outside(gaps, min(max(until, behind(gaps, newest, most)), newest, forgotten+limit, relayed))
		if until <= forgotten {
			gone = 0
			return nil
		}
		if gone, err = sqlkit.Changed(t.ExecContext(ctx, `DELETE FROM outbox WHERE position > 0 AND position <= $1`, until)); err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE outbox_tip SET forgotten = $1 WHERE one = 1`, until)
		return err
	})
	return gone, err
}

// gap is a range of positions skipped by a restore: after upTo, until from.
type gap struct{ upTo, from int64 }

// gaps returns the gaps, newest first.
func (t *tx) gaps(ctx context.Context) ([]gap, error) {
	return sqlkit.Collect(ctx, t, func(row sqlkit.Row) (g gap, err error) { return g, row.Scan(&g.upTo, &g.from) },
		`SELECT events_upto, events_from FROM restores ORDER BY id DESC`)
}

// behind returns the position after which exactly most events follow, gaps not counted.
func behind(gaps []gap, newest, most int64) int64 {
	at := newest - most
	for _, g := range gaps {
		if at < g.from {
			at -= g.from - g.upTo
		}
	}
	return at
}

// outside returns position, or the last event before a gap that contains position: no reader may
// continue from within a gap.
func outside(gaps []gap, position int64) int64 {
	for _, g := range gaps {
		if g.upTo < position && position <= g.from {
			return g.upTo
		}
	}
	return position
}
