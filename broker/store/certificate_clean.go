package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// CleanCertificate is a clean certificate on record.
type CleanCertificate struct {
	ID, RunID, NodeID, Site, Mode string
	NodeEpoch                     int64
	AllocationID                  string // empty: no allocation
	MeetsPolicy                   bool
	Shortfalls                    []string // codes
	Digest                        string   // sha256:… of the file
	IssuedAt, ValidUntil          time.Time
	File                          []byte // the signed file
}

const cleanColumns = `id, run_id, node_id, site, mode, node_epoch, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until`

func cleanFields(c *CleanCertificate) []any {
	return []any{
		&c.ID, &c.RunID, &c.NodeID, &c.Site, &c.Mode, &c.NodeEpoch, &c.AllocationID, &c.MeetsPolicy,
		sqlkit.ScanJSON(&c.Shortfalls), &c.Digest, sqlkit.ScanMicros(&c.IssuedAt), sqlkit.ScanMicros(&c.ValidUntil),
	}
}

// KeepCleanCertificate stores a certificate under its id, audited. A stored certificate with that
// id stays unchanged and is returned.
func (db *DB) KeepCleanCertificate(ctx context.Context, actor broker.Actor, c CleanCertificate) (kept CleanCertificate, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := cleanCertificate(ctx, t, c.ID)
		if err == nil {
			kept = had
			return nil
		} else if broker.AsError(err).Kind != broker.NotFound {
			return err
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO clean_certificates (id, run_id, node_id, site, mode, node_epoch, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until, file)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			c.ID, c.RunID, c.NodeID, c.Site, c.Mode, c.NodeEpoch, c.AllocationID, c.MeetsPolicy, listText(c.Shortfalls), c.Digest,
			sqlkit.Micros(c.IssuedAt), sqlkit.Micros(c.ValidUntil), c.File); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET certified_at = $1 WHERE id = $2 AND certified_at < $1`,
			sqlkit.Micros(c.IssuedAt), c.NodeID); err != nil {
			return err
		}
		kept = c
		t.hint(HintNode, c.NodeID)
		e := entry(actor, "certificate.issue", c.NodeID)
		e.CorrelationID, e.After = c.RunID, small("certificate", c.ID, "meets_policy", c.MeetsPolicy, "digest", c.Digest)
		return t.audit(ctx, e)
	})
	return kept, err
}

// CleanCertificate reads a certificate with its file. Code: certificate_not_found.
func (db *DB) CleanCertificate(ctx context.Context, id string) (CleanCertificate, error) {
	return cleanCertificate(ctx, db.reader(), id)
}

func cleanCertificate(ctx context.Context, r sqlkit.Runner, id string) (c CleanCertificate, err error) {
	err = r.QueryRowContext(ctx, `SELECT `+cleanColumns+`, file FROM clean_certificates WHERE id = $1`,
		id).Scan(append(cleanFields(&c), &c.File)...)
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "certificate_not_found", "there is no clean certificate %q (see hostler certificate list)",
			id)
	}
	return c, err
}

// CleanFilter selects certificates; an empty field adds no condition.
type CleanFilter struct {
	NodeID string
	Sites  []string // nil: all
	After  string   // cursor: the id of the previous page's last certificate
	Limit  int      // 0: 100
}

// CleanCertificates returns a page without the files, newest first, and the cursor of the next page
// ("" at the end).
func (db *DB) CleanCertificates(ctx context.Context, f CleanFilter) (page []CleanCertificate, next string, err error) {
	var w sqlkit.Where
	w.Equal("node_id", f.NodeID)
	sqlkit.In(&w, "site", f.Sites)
	if f.After != "" {
		w.Add("(issued_at, id) < (SELECT issued_at, id FROM clean_certificates WHERE id = ?)", f.After)
	}
	limit := cmp.Or(f.Limit, 100)
	page, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c CleanCertificate, err error) {
		return c, row.Scan(cleanFields(&c)...)
	}, `SELECT `+cleanColumns+` FROM clean_certificates`+w.String()+` ORDER BY issued_at DESC, id DESC`+w.Limit(limit+1), w.Args...)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, err
}

// RootSinceReimage reports whether a tenant had root on a node since its last reimage with a certificate,
// whatever was turned over in between.
func (db *DB) RootSinceReimage(ctx context.Context, nodeID string) (root bool, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM allocations WHERE node_id = $1 AND had_root AND (ended_at = 0 OR
		ended_at > COALESCE((SELECT MAX(issued_at) FROM clean_certificates WHERE node_id = $1 AND mode = 'reimage'), 0)) AND`+occupantWas+`)`,
		nodeID).Scan(&root)
	return root, err
}

// SoftResets counts the soft resets of a node that ended with a certificate, since its last reimage that did.
func (db *DB) SoftResets(ctx context.Context, nodeID string) (n int, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(DISTINCT run_id) FROM clean_certificates WHERE node_id = $1 AND mode = 'soft_reset'
		AND issued_at > COALESCE((SELECT MAX(issued_at) FROM clean_certificates WHERE node_id = $1 AND mode = 'reimage'), 0)`, nodeID).Scan(&n)
	return n, err
}
