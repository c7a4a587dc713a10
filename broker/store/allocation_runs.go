package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// AllocationLock is the name of the lock that a live run of an allocation holds.
func AllocationLock(id string) string { return "allocation/" + id }

// AllocationWaits says why the live run of an allocation waits; empty: it does not wait, or there is none.
func (db *DB) AllocationWaits(ctx context.Context, id string) (why string, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT waiting FROM chain_runs WHERE id IN (SELECT run_id FROM chain_locks WHERE name = $1)`,
		AllocationLock(id)).Scan(&why)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return why, err
}

// moving selects allocations whose status asks for a run; the index of the table has these words.
const moving = `status IN ('requested', 'provisioning', 'releasing')`

// AllocationsWithoutRun returns allocations whose status asks for a run and that no live run has,
// oldest first.
func (db *DB) AllocationsWithoutRun(ctx context.Context, most int) ([]broker.Allocation, error) {
	all, err := sqlkit.Collect(ctx, db.reader(), scanAllocation, `SELECT `+allocationColumns+` FROM tenant_allocations WHERE `+moving+`
		AND NOT EXISTS (SELECT 1 FROM chain_locks WHERE name = 'allocation/' || tenant_allocations.id)
		ORDER BY requested_at, id LIMIT $1`, most)
	if err != nil {
		return nil, err
	}
	return all, db.addClaims(ctx, all)
}

// AllocationsPastEnd returns the ids of active allocations whose end has come, the earliest first.
func (db *DB) AllocationsPastEnd(ctx context.Context, most int) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) { return id, row.Scan(&id) },
		`SELECT id FROM tenant_allocations WHERE status = 'active' AND ends_at > 0 AND ends_at <= $1 ORDER BY ends_at, id LIMIT $2`,
		sqlkit.Micros(db.Now()), most)
}

// AllocationsKeptByEnd returns allocations whose release stopped because the operation of their end did not end well, by id,
// after one: a page.
func (db *DB) AllocationsKeptByEnd(ctx context.Context, after string, most int) ([]broker.Allocation, error) {
	// The last term has the words of the index tenant_allocations_live.
	all, err := sqlkit.Collect(ctx, db.reader(), scanAllocation, `SELECT `+allocationColumns+` FROM tenant_allocations
		WHERE status = 'release_failed' AND code = $1 AND id > $2 AND status NOT IN ('released', 'failed') ORDER BY id LIMIT $3`,
		broker.AllocationEndOperation, after, most)
	if err != nil {
		return nil, err
	}
	return all, db.addClaims(ctx, all)
}

// SetGoesOn notes when a release that stopped because of the operation of its end goes on by itself; zero: never. A
// release that goes on already stays as it is.
func (db *DB) SetGoesOn(ctx context.Context, id string, at time.Time) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE tenant_allocations SET goes_on_at = $1 WHERE id = $2 AND status = 'release_failed' AND code = $3`,
			sqlkit.Micros(at), id, broker.AllocationEndOperation)
		return err
	})
}

// PassedReleases are those of the allocations whose release goes on, by policy, without the operation of its end.
func (db *DB) PassedReleases(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	w := sqlkit.Where{Terms: []string{"passed_at > 0"}}
	sqlkit.In(&w, "id", ids)
	return sqlkit.Collect(ctx, db.reader(), scanText, `SELECT id FROM tenant_allocations`+w.String()+` ORDER BY id`, w.Args...)
}

// FailedReleases are allocations of a site whose release failed. They hold their nodes until somebody
// goes on.
type FailedReleases struct {
	Site        string // empty: none
	Allocations int
	Since       time.Time // when the first of them failed
	// GoOn counts those that go on by themselves, without the operation of their end, and Next is when the first of them does.
	GoOn int
	Next time.Time
}

// FailedReleases counts, by site (nil: all), the allocations whose release failed.
func (db *DB) FailedReleases(ctx context.Context, sites []string) ([]FailedReleases, error) {
	// The second term has the words of the index tenant_allocations_live.
	w := sqlkit.Where{Terms: []string{"status = 'release_failed'", "status NOT IN ('released', 'failed')"}}
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (f FailedReleases, err error) {
		return f, row.Scan(&f.Site, &f.Allocations, sqlkit.ScanMicros(&f.Since), &f.GoOn, sqlkit.ScanMicros(&f.Next))
	}, `SELECT site, COUNT(*), MIN(release_failed_at), COALESCE(SUM(CASE WHEN goes_on_at > 0 THEN 1 ELSE 0 END), 0),
		COALESCE(MIN(CASE WHEN goes_on_at > 0 THEN goes_on_at END), 0) FROM tenant_allocations`+w.String()+` GROUP BY site ORDER BY site`, w.Args...)
}

// AllocationKeys returns the public keys of an allocation, a line each, in the order of its key ids.
// Each must be a live key of a live member of the project or of its organisation. Code:
// ssh_key_not_found.
func (db *DB) AllocationKeys(ctx context.Context, a broker.Allocation) (lines []string, err error) {
	for _, id := range a.KeyIDs {
		var line string
		err := db.reader().QueryRowContext(ctx, `SELECT k.public_key FROM ssh_keys k JOIN members m ON m.id = k.member_id
			JOIN projects p ON p.organisation_id = m.organisation_id
			WHERE k.id = $1 AND k.ended_at = 0 AND m.ended_at = 0 AND p.id = $2 AND m.project_id IN ('', p.id)`, id, a.ProjectID).Scan(&line)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, broker.Errorf(broker.Refused, "ssh_key_not_found",
				"cannot let a tenant in with SSH key %q: no live member of the project, or of its organisation, has a live key of that id (name another key, see hostler key list MEMBER)",
				taskcatalog.Clean(id, 64))
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil, broker.Errorf(broker.Refused, "ssh_key_not_found",
			"cannot let allocation %s's tenant in: the allocation names no SSH key (name at least one)", a.ID)
	}
	return lines, nil
}

// ReleaseCertificates returns the certificates that prove that the tenant's time on the nodes of an
// allocation has ended, or that were issued after the allocation failed, by node. A node that is not proven clean is missing. Only
// TransitionAllocation, which looks again under locks, decides whether they suffice.
func (db *DB) ReleaseCertificates(ctx context.Context, a broker.Allocation) (map[string]string, error) {
	out := map[string]string{}
	for _, nodeID := range a.NodeIDs {
		id, err := releaseCertificate(ctx, db.reader(), a, nodeID)
		if err != nil {
			return nil, err
		}
		if id != "" {
			out[nodeID] = id
		}
	}
	return out, nil
}

// releaseCertificate returns the certificate that ends the allocation on a node; empty: none. Where the
// allocation never had a user, the certificate was issued since the allocation began to end.
func releaseCertificate(ctx context.Context, r sqlkit.Runner, a broker.Allocation, nodeID string) (string, error) {
	n, err := node(ctx, r, nodeID, "")
	if err != nil {
		return "", err
	}
	var id string
	err = r.QueryRowContext(ctx, `SELECT certified_by FROM allocations WHERE node_id = $1 AND allocation_id = $2 AND`+occupantWas,
		nodeID, a.ID).Scan(&id)
	never := errors.Is(err, sql.ErrNoRows)
	if err != nil && !never {
		return "", err
	}
	// A node of a failed allocation that never had a user may be another tenant's by now.
	if n.Status != broker.Deleted && (!never || a.Status != broker.AllocationFailed) {
		others, err := occupants(ctx, r, nodeID, `certified_by = ''`)
		if err != nil || n.TurnoverOwed || len(others) > 0 {
			return "", err
		}
	}
	if !never && n.Status != broker.Deleted {
		return id, nil
	}
	begun := a.ReleasingAt
	if a.Status == broker.AllocationFailed {
		begun = a.FailedAt.Add(-time.Microsecond) // a reimage for the image may end later than the failure; one that ended before proves nothing
	}
	err = r.QueryRowContext(ctx, `SELECT id FROM clean_certificates WHERE node_id = $1 AND node_epoch = $2 AND meets_policy AND issued_at > $3
		ORDER BY issued_at DESC, id DESC LIMIT 1`, nodeID, n.Epoch, sqlkit.Micros(begun)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// OccupantOf returns an allocation's user on a node, since the node was last handed out clean; nil:
// none.
func (db *DB) OccupantOf(ctx context.Context, allocationID, nodeID string) (*broker.Occupant, error) {
	all, err := occupants(ctx, db.reader(), nodeID, `certified_by = ''`)
	if at := slices.IndexFunc(all, func(o broker.Occupant) bool { return o.ID == allocationID }); at >= 0 {
		return &all[at], err
	}
	return nil, err
}
