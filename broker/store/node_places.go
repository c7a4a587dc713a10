package store

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// PlaceEvent is the type of the event that announces a changed place of a node.
const PlaceEvent = "node.place.changed"

// ChangePlaces changes the places of nodes, by their ids: all, or none. A node whose place does not
// change is left as it is. changed are the nodes that were changed, by id. Codes: node_not_found,
// place_invalid.
func (db *DB) ChangePlaces(
	ctx context.Context, actor broker.Actor, changes map[string]broker.NodePlaceChange,
) (changed []broker.Node, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		changed = nil
		for _, id := range sortedKeys(changes) {
			n, err := node(ctx, t, id, t.ForUpdate())
			if err != nil {
				return err
			}
			if n.Status == broker.Deleted {
				return nodeNotFound(id)
			}
			before := n.Place
			n.Place = n.Place.With(changes[id])
			if err := n.Place.Check(); err != nil {
				return err
			}
			if n.Place == before {
				continue
			}
			if err := t.changePlace(ctx, actor, &n, before); err != nil {
				return err
			}
			changed = append(changed, n)
		}
		return nil
	})
	return changed, err
}

// changePlace writes the place of a locked node, with event and audit row.
func (t *tx) changePlace(ctx context.Context, actor broker.Actor, n *broker.Node, before broker.NodePlace) error {
	n.UpdatedAt = t.now
	p := n.Place
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET place_zone = $1, place_room = $2, place_row = $3, place_rack = $4, place_unit = $5,
		place_domain = $6, updated_at = $7 WHERE id = $8`,
		p.Zone, p.Room, p.Row, p.Rack, p.Unit, p.Domain, sqlkit.Micros(t.now), n.ID); err != nil {
		return err
	}
	if err := t.rewant(ctx, n); err != nil {
		return err
	}
	if err := t.send(ctx, told{
		Site: n.Site, CorrelationID: correlationOf(ctx),
		Message: chain.Message{Type: PlaceEvent, Subject: "node/" + n.ID, Data: map[string]any{
			"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "from": before, "to": p, "by": actor.Name,
		}},
	}); err != nil {
		return err
	}
	e := entry(actor, "node.place", n.ID)
	e.Before, e.After = []byte(sqlkit.JSON(before)), []byte(sqlkit.JSON(p))
	return t.audit(ctx, e)
}
