package store

import (
	"context"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AllocationLogin is where a tenant logs in to a node.
type AllocationLogin struct {
	Hostname string
	Address  string // as MAAS reports it; empty: not known
}

// AllocationLogins returns where to log in to the nodes that allocations hold, by the ids of the
// allocations and ordered by hostname.
func (db *DB) AllocationLogins(ctx context.Context, ids []string) (map[string][]AllocationLogin, error) {
	out := map[string][]AllocationLogin{}
	if len(ids) == 0 {
		return out, nil
	}
	var w sqlkit.Where
	w.Add("c.ended_at = 0")
	sqlkit.In(&w, "c.allocation_id", ids)
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (none struct{}, err error) {
		var id string
		var l AllocationLogin
		err = row.Scan(&id, &l.Hostname, &l.Address)
		out[id] = append(out[id], l)
		return none, err
	}, `SELECT c.allocation_id, n.hostname, COALESCE(s.host, '') FROM allocation_claims c JOIN nodes n ON n.id = c.node_id
		LEFT JOIN node_maas_state s ON s.node_id = c.node_id`+w.String()+` ORDER BY n.hostname, n.id`, w.Args...)
	return out, err
}
