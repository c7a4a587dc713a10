package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AuditTip is the end of the chain of seals.
type AuditTip struct {
	Position int64
	Seal     string
}

// AuditHead is a signed tip.
type AuditHead struct {
	AuditTip
	At       time.Time
	Envelope []byte // in-toto statement by the statement key
}

// SealAudit gives up to limit rows, in the order of writing, their place in the chain; seal
// computes the seal of a row from the tip before. It returns the number sealed and the new tip.
// Rows that commit late on PostgreSQL, with a lower id than a sealed row, come at the end. Without
// unsealed rows it only reads.
func (db *DB) SealAudit(
	ctx context.Context, limit int, seal func(before AuditTip, e broker.AuditEntry) string,
) (sealed int, tip AuditTip, err error) {
	var waiting bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_logs WHERE position <= 0)`).Scan(&waiting); err != nil {
		return 0, tip, err
	}
	if !waiting {
		tip, err = db.AuditTip(ctx)
		return 0, tip, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		sealed = 0
		if err := t.QueryRowContext(ctx, `SELECT position, seal FROM audit_tip WHERE one = 1`+t.ForUpdate()).Scan(&tip.Position,
			&tip.Seal); err != nil {
			return err
		}
		rows, err := sqlkit.Collect(ctx, t, scanAudit, `SELECT `+auditColumns+` FROM audit_logs WHERE position <= 0 ORDER BY id LIMIT $1`,
			limit)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			tip = AuditTip{Position: tip.Position + 1, Seal: seal(tip, r.AuditEntry)}
			if _, err := t.ExecContext(ctx, `UPDATE audit_logs SET position = $1, seal = $2 WHERE id = $3`, tip.Position, tip.Seal,
				r.ID); err != nil {
				return err
			}
		}
		sealed = len(rows)
		_, err = t.ExecContext(ctx, `UPDATE audit_tip SET position = $1, seal = $2 WHERE one = 1`, tip.Position, tip.Seal)
		return err
	})
	return sealed, tip, err
}

// AuditTip reads the end of the chain.
func (db *DB) AuditTip(ctx context.Context) (tip AuditTip, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT position, seal FROM audit_tip WHERE one = 1`).Scan(&tip.Position, &tip.Seal)
	return tip, err
}

// UnsealedAudit counts the rows without a place in the chain.
func (db *DB) UnsealedAudit(ctx context.Context) (n int64, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM audit_logs WHERE position <= 0`).Scan(&n)
	return n, err
}

const walkPage = 500

// WalkAudit calls f with every sealed row from a position on, in the order of the chain, with few
// rows in memory. An error of f ends the walk and is returned.
func (db *DB) WalkAudit(ctx context.Context, from int64, f func(SealedEntry) error) error {
	for {
		page, err := sqlkit.Collect(ctx, db.reader(), scanAudit, `SELECT `+auditColumns+` FROM audit_logs
			WHERE position > 0 AND position >= $1 ORDER BY position LIMIT $2`, from, walkPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := f(e); err != nil {
				return err
			}
			from = e.Position + 1
		}
		if len(page) < walkPage {
			return nil
		}
	}
}

// SaveAuditHead stores a signed head.
func (db *DB) SaveAuditHead(ctx context.Context, h AuditHead) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx,
			`INSERT INTO audit_heads (position, seal, at, envelope) VALUES ($1, $2, $3, $4) ON CONFLICT (position) DO NOTHING`,
			h.Position, h.Seal, sqlkit.Micros(h.At), h.Envelope)
		return err
	})
}

func scanHead(row sqlkit.Row) (AuditHead, error) {
	var h AuditHead
	err := row.Scan(&h.Position, &h.Seal, sqlkit.ScanMicros(&h.At), &h.Envelope)
	return h, err
}

// AuditHeads lists the signed heads by position.
func (db *DB) AuditHeads(ctx context.Context) ([]AuditHead, error) {
	return sqlkit.Collect(ctx, db.reader(), scanHead, `SELECT position, seal, at, envelope FROM audit_heads ORDER BY position`)
}

// LastAuditHead returns the newest head; position 0: none.
func (db *DB) LastAuditHead(ctx context.Context) (AuditHead, error) {
	heads, err := sqlkit.Collect(ctx, db.reader(), scanHead,
		`SELECT position, seal, at, envelope FROM audit_heads ORDER BY position DESC LIMIT 1`)
	if err != nil || len(heads) == 0 {
		return AuditHead{}, err
	}
	return heads[0], nil
}
