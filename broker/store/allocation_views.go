package store

import (
	"context"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AllocationLogin is where a tenant logs in to a node.
type AllocationLogin struct {
	NodeID   string
	Hostname string
	Address  string // at which the node proved the login, else as MAAS reports it; empty: not known
	HostKey  string // of the node's SSH server, as a line without a host name; empty: not proven yet
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
		err = row.Scan(&id, &l.NodeID, &l.Hostname, &l.Address, &l.HostKey)
		out[id] = append(out[id], l)
		return none, err
	}, `SELECT c.allocation_id, n.id, n.hostname, COALESCE(NULLIF(c.login_address, ''), s.host, ''), c.host_key FROM allocation_claims c JOIN nodes n ON n.id = c.node_id
		LEFT JOIN node_maas_state s ON s.node_id = c.node_id`+w.String()+` ORDER BY n.hostname, n.id`, w.Args...)
	return out, err
}

// NoteLogin records where a node that an allocation holds proved the tenant's login, and the key of its
// SSH server.
func (db *DB) NoteLogin(ctx context.Context, allocationID, nodeID, address, hostKey string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE allocation_claims SET login_address = $1, host_key = $2
			WHERE allocation_id = $3 AND node_id = $4 AND ended_at = 0`, address, hostKey, allocationID, nodeID)
		return err
	})
}
