package store

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// RefusedKey is a key of an allocation that a node's SSH server did not accept.
type RefusedKey struct{ ID, Fingerprint string }

// NoteRefusedKeys records the fingerprints of the keys that the SSH server of a node, which an allocation
// holds, did not accept.
func (db *DB) NoteRefusedKeys(ctx context.Context, allocationID, nodeID string, fingerprints []string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE allocation_claims SET refused_keys = $1 WHERE allocation_id = $2 AND node_id = $3 AND ended_at = 0`,
			sqlkit.JSON(append([]string{}, fingerprints...)), allocationID, nodeID)
		return err
	})
}

// RefusedKeys returns the keys of allocations that a node did not accept, by the ids of the allocations.
// What a node reported is only compared with the keys on record.
func (db *DB) RefusedKeys(ctx context.Context, all []broker.Allocation) (map[string][]RefusedKey, error) {
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	w := sqlkit.Where{Terms: []string{"refused_keys <> '[]'"}}
	sqlkit.In(&w, "allocation_id", ids)
	refused := map[string][]string{}
	if len(ids) == 0 {
		return nil, nil
	}
	if _, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
		var some []string
		err = row.Scan(&id, sqlkit.ScanJSON(&some))
		refused[id] = append(refused[id], some...)
		return id, err
	}, `SELECT allocation_id, refused_keys FROM allocation_claims`+w.String(), w.Args...); err != nil || len(refused) == 0 {
		return nil, err
	}
	out := map[string][]RefusedKey{}
	for _, a := range all {
		if len(refused[a.ID]) == 0 {
			continue
		}
		prints, err := db.fingerprints(ctx, a.KeyIDs)
		if err != nil {
			return nil, err
		}
		for _, id := range a.KeyIDs {
			if slices.Contains(refused[a.ID], prints[id]) {
				out[a.ID] = append(out[a.ID], RefusedKey{id, prints[id]})
			}
		}
	}
	return out, nil
}

// fingerprints returns the fingerprints of keys, by id.
func (db *DB) fingerprints(ctx context.Context, keyIDs []string) (map[string]string, error) {
	out := map[string]string{}
	var w sqlkit.Where
	sqlkit.In(&w, "id", keyIDs)
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
		var print string
		err = row.Scan(&id, &print)
		out[id] = print
		return id, err
	}, `SELECT id, fingerprint FROM ssh_keys`+w.String(), w.Args...)
	return out, err
}

// acceptedAmong is how many of a project's newest logins are looked at for a key that was accepted.
const acceptedAmong = 100

// KeyAcceptedBefore reports whether another allocation of the project has proven a login at the same site
// with a key of this allocation: nodes of the site accept such keys.
func (db *DB) KeyAcceptedBefore(ctx context.Context, a broker.Allocation) (bool, error) {
	prints, err := db.fingerprints(ctx, a.KeyIDs)
	if err != nil {
		return false, err
	}
	type login struct{ keys, refused []string }
	logins, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l login, err error) {
		return l, row.Scan(sqlkit.ScanJSON(&l.keys), sqlkit.ScanJSON(&l.refused))
	}, `SELECT a.key_ids, c.refused_keys FROM tenant_allocations a JOIN allocation_claims c ON c.allocation_id = a.id
		WHERE a.project_id = $1 AND a.site = $2 AND a.id <> $3 AND c.host_key <> '' ORDER BY a.requested_at DESC LIMIT $4`,
		a.ProjectID, a.Site, a.ID, acceptedAmong)
	return slices.ContainsFunc(logins, func(l login) bool {
		return slices.ContainsFunc(a.KeyIDs, func(id string) bool {
			return slices.Contains(l.keys, id) && prints[id] != "" && !slices.Contains(l.refused, prints[id])
		})
	}), err
}
