package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// ReplacementDueEvent announces that a kind of part of a node was repaired so often that the policy asks for another machine.
const ReplacementDueEvent = "node.repair.replacement_due"

// HostReplacedEvent announces that a machine took the place of another one.
const HostReplacedEvent = "node.repair.host_replaced"

const repairColumns = `id, node_id, hostname, site, maintenance_id, source, category, action, part, old_model, old_serial, new_model, new_serial,
	ticket, note, recorded_by, recorded_at, opened_at, closed_at`

func scanRepair(row sqlkit.Row) (r broker.Repair, err error) {
	at := sqlkit.ScanMicros
	err = row.Scan(&r.ID, &r.NodeID, &r.Hostname, &r.Site, &r.MaintenanceID, &r.Source, &r.Category, &r.Action, &r.Part,
		&r.Old.Model, &r.Old.Serial,
		&r.New.Model, &r.New.Serial, &r.Ticket, &r.Note, &r.RecordedBy, at(&r.RecordedAt), at(&r.OpenedAt), at(&r.ClosedAt))
	return r, err
}

// RecordRepairs records repairs: all, or none. A repair that is on record already, by node, action, part, serial numbers and
// beginning, is left as it is. recorded are the new ones. The node of a repair may be deleted. Codes: repair_invalid, node_not_found.
func (db *DB) RecordRepairs(ctx context.Context, actor broker.Actor, all []broker.Repair) (recorded []broker.Repair, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		recorded = nil
		for _, r := range all {
			isNew, err := t.recordRepair(ctx, actor, &r)
			if err != nil {
				return err
			}
			if isNew {
				recorded = append(recorded, r)
			}
		}
		return nil
	})
	return recorded, err
}

func (t *tx) recordRepair(ctx context.Context, actor broker.Actor, r *broker.Repair) (isNew bool, err error) {
	now := t.clock().UTC().Truncate(time.Microsecond)
	if r.OpenedAt.IsZero() {
		r.OpenedAt = now
	}
	r.OpenedAt, r.ClosedAt = r.OpenedAt.UTC().Truncate(time.Microsecond), r.ClosedAt.UTC().Truncate(time.Microsecond)
	if err := r.Check(now); err != nil {
		return false, err
	}
	var n broker.Node
	if r.NodeID != "" {
		if n, err = node(ctx, t, r.NodeID, t.ForUpdate()); err != nil {
			return false, err
		}
		r.Hostname, r.Site = n.Hostname, n.Site
	}
	var known bool
	if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM repairs WHERE node_id = $1 AND opened_at = $2 AND action = $3 AND part = $4
		AND old_serial = $5 AND new_serial = $6)`, r.NodeID, sqlkit.Micros(r.OpenedAt), string(r.Action), r.Part, r.Old.Serial, r.New.Serial).
		Scan(&known); err != nil || known {
		return false, err
	}
	r.RecordedBy, r.RecordedAt = actor.Name, now
	us := sqlkit.Micros
	if _, err := t.ExecContext(ctx, `INSERT INTO repairs (`+repairColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		r.ID, r.NodeID, r.Hostname, r.Site, r.MaintenanceID, string(r.Source), string(r.Category), string(r.Action), r.Part,
		r.Old.Model, r.Old.Serial, r.New.Model, r.New.Serial, r.Ticket, r.Note, r.RecordedBy,
		us(r.RecordedAt), us(r.OpenedAt), us(r.ClosedAt)); err != nil {
		return false, err
	}
	e := entry(actor, "repair.record", r.NodeID)
	if r.NodeID == "" {
		e.Subject = "repair/" + r.ID
	}
	e.Reason, e.After = r.Note, small("repair", r.ID, "source", r.Source, "category", r.Category, "action", r.Action, "part", r.Part,
		"old", r.Old.Serial, "new", r.New.Serial, "ticket", r.Ticket)
	if err := t.audit(ctx, e); err != nil || r.NodeID == "" {
		return true, err
	}
	return true, t.tellReplacementDue(ctx, n, *r, now)
}

// countedActions are the actions that count as a repair of a machine. A part that was added, or returned to its vendor, is
// none: of two parts that were swapped at once, each has a row of its removal.
const countedActions = `'replaced', 'repaired', 'reseated', 'removed'`

// tellReplacementDue announces that a repair is the one with which the policy asks for another machine.
func (t *tx) tellReplacementDue(ctx context.Context, n broker.Node, r broker.Repair, now time.Time) error {
	if r.Action == "added" || r.Action == "returned" || n.Status == broker.Deleted {
		return nil
	}
	var repairs int
	err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM repairs WHERE node_id = $1 AND part = $2 AND opened_at > $3
		AND action IN (`+countedActions+`)`, n.ID, r.Part,
		sqlkit.Micros(now.Add(-broker.RepairsWithin))).Scan(&repairs)
	if err != nil || repairs < broker.RepairsToReplace {
		return err
	}
	return t.send(ctx, told{
		Site: n.Site, CorrelationID: r.ID,
		Message: chain.Message{Type: ReplacementDueEvent, Subject: "node/" + n.ID, Data: map[string]any{
			"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "part": r.Part, "repairs": repairs,
			"days": int(broker.RepairsWithin / (24 * time.Hour)), "repair_id": r.ID,
		}},
	})
}

// RepairFilter selects repairs; an empty field adds no condition.
type RepairFilter struct {
	NodeID string
	Serial string   // of the old or the new part
	Sites  []string // nil: all
	After  string   // cursor: the id of the last repair of the previous page
	Limit  int      // 0: all
}

// Repairs returns a page, ordered by id, and the cursor of the next page ("" at the end).
func (db *DB) Repairs(ctx context.Context, f RepairFilter) ([]broker.Repair, string, error) {
	var w sqlkit.Where
	w.Equal("node_id", f.NodeID)
	if f.Serial != "" {
		w.Add("id IN (SELECT id FROM repairs WHERE old_serial <> '' AND old_serial = ? UNION SELECT id FROM repairs WHERE new_serial <> '' AND new_serial = ?)",
			f.Serial, f.Serial)
	}
	sqlkit.In(&w, "site", f.Sites)
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	return pageOf(ctx, db, scanRepair, func(r broker.Repair) string { return r.ID }, `SELECT `+repairColumns+` FROM repairs`, w, f.Limit)
}

// ReplacementDue is a node of which a kind of part was repaired so often that the policy asks for another machine.
type ReplacementDue struct {
	NodeID, Hostname, Site, Part string
	Repairs                      int
	Since                        time.Time // the last repair
}

// ReplacementsDue lists such nodes at sites (nil: all) that are not deleted and not replaced.
func (db *DB) ReplacementsDue(ctx context.Context, sites []string, most int) ([]ReplacementDue, error) {
	w := sqlkit.Where{Terms: []string{"nodes.status <> 'deleted'", "NOT EXISTS (SELECT 1 FROM host_replacements h WHERE h.old_node_id = nodes.id)"}}
	w.Terms = append(w.Terms, "r.action IN ("+countedActions+")")
	w.Add("r.opened_at > ?", sqlkit.Micros(db.Now().Add(-broker.RepairsWithin)))
	sqlkit.In(&w, "nodes.site", sites)
	having := sqlkit.Where{Args: w.Args}
	having.Add("COUNT(*) >= ?", broker.RepairsToReplace)
	limit := having.Limit(most)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (d ReplacementDue, err error) {
		return d, row.Scan(&d.NodeID, &d.Hostname, &d.Site, &d.Part, &d.Repairs, sqlkit.ScanMicros(&d.Since))
	}, `SELECT nodes.id, nodes.hostname, nodes.site, r.part, COUNT(*), MAX(r.opened_at) FROM repairs r JOIN nodes ON nodes.id = r.node_id`+w.String()+
		` GROUP BY nodes.id, nodes.hostname, nodes.site, r.part HAVING `+having.Terms[0]+` ORDER BY 6, 1`+limit, having.Args...)
}

// HostReplacement links a machine with the one that took its place.
type HostReplacement struct {
	OldNodeID, NewNodeID string
	At                   time.Time
	By, Ticket, Reason   string
}

// ReplaceHost records that a machine took the place of another one. Recording the same again changes nothing. Codes:
// node_not_found, repair_invalid, host_replaced.
func (db *DB) ReplaceHost(ctx context.Context, actor broker.Actor, h HostReplacement) (made HostReplacement, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made = h
		if h.OldNodeID == h.NewNodeID {
			return broker.Errorf(broker.Invalid, "repair_invalid", "cannot replace node %s by itself", h.OldNodeID)
		}
		nodes := map[string]broker.Node{}
		for _, id := range []string{min(h.OldNodeID, h.NewNodeID), max(h.OldNodeID, h.NewNodeID)} { // the order of the locks
			n, err := node(ctx, t, id, t.ForUpdate())
			if err != nil {
				return err
			}
			nodes[id] = n
		}
		links, err := hostLinks(ctx, t, h.OldNodeID, h.NewNodeID)
		if err != nil {
			return err
		}
		for _, l := range links {
			switch {
			case l.OldNodeID == h.OldNodeID && l.NewNodeID == h.NewNodeID:
				made = l
				return nil
			case l.OldNodeID == h.OldNodeID, l.NewNodeID == h.NewNodeID, l.OldNodeID == h.NewNodeID && l.NewNodeID == h.OldNodeID:
				return refuse(broker.Errorf(broker.Refused, "host_replaced", "cannot replace node %s by node %s: node %s was replaced by node %s", h.OldNodeID,
					h.NewNodeID, l.OldNodeID, l.NewNodeID), entry(actor, "repair.replace_host", h.OldNodeID))
			}
		}
		made.At, made.By = t.clock().UTC().Truncate(time.Microsecond), actor.Name
		if _, err := t.ExecContext(ctx, `INSERT INTO host_replacements (old_node_id, new_node_id, at, by_name, ticket, reason) VALUES ($1, $2, $3, $4, $5, $6)`,
			h.OldNodeID, h.NewNodeID, sqlkit.Micros(made.At), made.By, made.Ticket, made.Reason); err != nil {
			return err
		}
		n := nodes[h.OldNodeID]
		if err := t.send(ctx, told{
			Site: n.Site, Message: chain.Message{Type: HostReplacedEvent, Subject: "node/" + n.ID, Data: map[string]any{
				"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "new_node_id": h.NewNodeID, "new_hostname": nodes[h.NewNodeID].Hostname,
				"ticket": h.Ticket, "by": actor.Name,
			}},
		}); err != nil {
			return err
		}
		e := entry(actor, "repair.replace_host", h.OldNodeID)
		e.Reason, e.After = h.Reason, small("new", h.NewNodeID, "ticket", h.Ticket)
		return t.audit(ctx, e)
	})
	return made, err
}

func hostLinks(ctx context.Context, r sqlkit.Runner, nodeIDs ...string) ([]HostReplacement, error) {
	var old, later sqlkit.Where
	sqlkit.In(&old, "old_node_id", nodeIDs)
	later.Args = old.Args
	sqlkit.In(&later, "new_node_id", nodeIDs)
	const columns = `SELECT old_node_id, new_node_id, at, by_name, ticket, reason FROM host_replacements`
	return sqlkit.Collect(ctx, r, func(row sqlkit.Row) (h HostReplacement, err error) {
		return h, row.Scan(&h.OldNodeID, &h.NewNodeID, sqlkit.ScanMicros(&h.At), &h.By, &h.Ticket, &h.Reason)
	}, columns+old.String()+` UNION `+columns+later.String()+` ORDER BY 3, 1`, later.Args...)
}

// HostLinks returns what replaced a node, and what the node has replaced.
func (db *DB) HostLinks(ctx context.Context, nodeID string) ([]HostReplacement, error) {
	return hostLinks(ctx, db.reader(), nodeID)
}
