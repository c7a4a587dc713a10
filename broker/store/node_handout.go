package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// siteDisabled is true of a node at a disabled site.
const siteDisabled = `EXISTS (SELECT 1 FROM maas_sites d WHERE d.name = nodes.site AND d.status = 'disabled')`

// openMaintenance and joinMaintenance read the maintenance that keeps a node out, by the index maintenances_open.
const (
	openMaintenance = `COALESCE(m.id, ''), COALESCE(m.category, ''), COALESCE(m.ticket, ''), COALESCE(m.until_at, 0)`
	joinMaintenance = `LEFT JOIN maintenances m ON m.node_id = nodes.id AND m.status = 'open'`
)

// Handout collects the data that decides whether a node may be handed to a tenant.
func (db *DB) Handout(ctx context.Context, n broker.Node) (broker.Handout, error) {
	return handout(ctx, db.reader(), db.judgeFile, n, db.Now())
}

func (t *tx) handout(ctx context.Context, n broker.Node, now time.Time) (broker.Handout, error) {
	return handout(ctx, t, t.judgeFile, n, now)
}

func handout(ctx context.Context, r sqlkit.Runner, judge JudgeCertificate, n broker.Node, now time.Time) (broker.Handout, error) {
	h, err := unjudgedHandout(ctx, r, n, now)
	if err == nil && h.Certificate != nil {
		_, err = judgeCertificate(ctx, r, judge, &h)
	}
	return h, err
}

// handoutKept is handout, and keeps the verdict if the certificate was judged anew: what follows from the handout
// and the verdict on record are of one judgement.
func (t *tx) handoutKept(ctx context.Context, n broker.Node) (broker.Handout, error) {
	h, err := unjudgedHandout(ctx, t, n, t.now)
	if err != nil || h.Certificate == nil {
		return h, err
	}
	anew, err := judgeCertificate(ctx, t, t.judgeFile, &h)
	if err == nil && anew != nil {
		err = t.keepVerdict(ctx, n.ID, *anew)
	}
	return h, err
}

func unjudgedHandout(ctx context.Context, r sqlkit.Runner, n broker.Node, now time.Time) (h broker.Handout, err error) {
	h.Node, h.Now = n, now
	p, m := &h.Provisions, &h.Maintenance
	if err := r.QueryRowContext(ctx, `SELECT override_at, `+siteDisabled+`, COALESCE(failures, 0), COALESCE(code, ''), COALESCE(message, ''),
			COALESCE(allocation_id, ''), COALESCE(at, 0), COALESCE(held_at, 0), `+openMaintenance+`
		FROM nodes LEFT JOIN provision_failures f ON f.node_id = nodes.id `+joinMaintenance+` WHERE nodes.id = $1`,
		n.ID).Scan(sqlkit.ScanMicros(&h.OverrideAt), &h.SiteDisabled, &p.Failures, &p.Code, &p.Message, &p.AllocationID,
		sqlkit.ScanMicros(&p.At), sqlkit.ScanMicros(&p.HeldAt), &m.ID, &m.Category, &m.Ticket, sqlkit.ScanMicros(&m.Until)); err != nil {
		return h, err
	}
	err = r.QueryRowContext(ctx, `SELECT id, status, kind FROM chain_runs WHERE id IN (SELECT run_id FROM chain_locks WHERE name = $1)`,
		"node/"+n.ID).Scan(&h.RunID, &h.Run, &h.RunKind)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return h, err
	}
	holds, err := sqlkit.Collect(ctx, r, scanHold, `SELECT `+holdColumns+
		` FROM chain_holds WHERE until_at = 0 AND kind IN ('freeze', 'restored') AND site IN ('', $1) ORDER BY id`, n.Site)
	if err != nil {
		return h, err
	}
	for _, f := range holds {
		if f.Kind == chain.Restored {
			h.Freezes = append(h.Freezes, "the database was restored from a backup and is on hold: "+taskcatalog.Clean(f.Reason, 200))
			continue
		}
		h.Freezes = append(h.Freezes, cmp.Or(f.Site, "every site")+" is frozen by "+taskcatalog.Clean(f.By, 64)+": "+
			taskcatalog.Clean(f.Reason, 200))
	}
	if h.Occupants, err = occupants(ctx, r, n.ID, `certified_by = ''`); err != nil {
		return h, err
	}
	err = r.QueryRowContext(ctx, `SELECT allocation_id FROM allocation_claims WHERE node_id = $1 AND ended_at = 0`,
		n.ID).Scan(&h.ClaimedBy)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return h, err
	}
	if h.Certificate, err = lastCertificate(ctx, r, n.ID); err != nil {
		return h, err
	}
	h.Devices, err = devices(ctx, r, n.ID)
	return h, err
}

// lastCertificate returns the newest certificate of a node; nil: none.
func lastCertificate(ctx context.Context, r sqlkit.Runner, nodeID string) (*broker.LastCertificate, error) {
	var c broker.LastCertificate
	err := r.QueryRowContext(ctx, `SELECT id, meets_policy, shortfalls, issued_at, valid_until FROM clean_certificates
		WHERE node_id = $1 ORDER BY issued_at DESC, id DESC LIMIT 1`, nodeID).
		Scan(&c.ID, &c.MeetsPolicy, sqlkit.ScanJSON(&c.Shortfalls), sqlkit.ScanMicros(&c.IssuedAt), sqlkit.ScanMicros(&c.ValidUntil))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &c, err
}
