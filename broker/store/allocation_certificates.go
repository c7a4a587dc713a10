package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AllocationCertificates returns the certificates of the turnovers that ended an allocation, without
// their files, the oldest first: those on which its nodes were handed out again after the tenant's user,
// and those that its release ended with. So a failed allocation has the certificates of the nodes on
// which it had a user. They are at most two a node.
func (db *DB) AllocationCertificates(ctx context.Context, a broker.Allocation) ([]CleanCertificate, error) {
	ids, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) { return id, row.Scan(&id) },
		`SELECT certified_by FROM allocations WHERE allocation_id = $1 AND certified_by <> '' AND`+occupantWas, a.ID)
	ids = slices.Compact(slices.Sorted(slices.Values(append(ids, a.CertificateIDs...))))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var w sqlkit.Where
	sqlkit.In(&w, "id", ids)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c CleanCertificate, err error) {
		return c, row.Scan(cleanFields(&c)...)
	}, `SELECT `+cleanColumns+` FROM clean_certificates`+w.String()+` ORDER BY issued_at, id`, w.Args...)
}

// Receipt is the receipt of a certificate for one allocation, as a tenant got it.
type Receipt struct {
	CertificateID, AllocationID string
	Digest                      string // sha256:… of the file
	IssuedAt                    time.Time
	File                        []byte // the signed file
}

// Receipt reads a receipt that was kept. The second result is false if there is none.
func (db *DB) Receipt(ctx context.Context, certificateID, allocationID string) (Receipt, bool, error) {
	return receipt(ctx, db.reader(), certificateID, allocationID)
}

func receipt(ctx context.Context, r sqlkit.Runner, certificateID, allocationID string) (Receipt, bool, error) {
	out := Receipt{CertificateID: certificateID, AllocationID: allocationID}
	err := r.QueryRowContext(ctx, `SELECT digest, issued_at, file FROM receipts WHERE certificate_id = $1 AND allocation_id = $2`,
		certificateID, allocationID).Scan(&out.Digest, sqlkit.ScanMicros(&out.IssuedAt), &out.File)
	if errors.Is(err, sql.ErrNoRows) {
		return Receipt{}, false, nil
	}
	return out, err == nil, err
}

// KeepReceipt stores a receipt, audited. A receipt that is stored already stays as it is, and is
// returned.
func (db *DB) KeepReceipt(ctx context.Context, actor broker.Actor, made Receipt) (kept Receipt, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		rows, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO receipts (certificate_id, allocation_id, digest, issued_at, file)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			made.CertificateID, made.AllocationID, made.Digest, sqlkit.Micros(made.IssuedAt), made.File))
		if err != nil {
			return err
		}
		if rows == 0 {
			kept, _, err = receipt(ctx, t, made.CertificateID, made.AllocationID)
			return err
		}
		kept = made
		kept.IssuedAt = made.IssuedAt.UTC().Truncate(time.Microsecond) // as it is read later
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "certificate.receipt", Subject: "certificate/" + made.CertificateID,
			After: small("allocation", made.AllocationID, "receipt", made.Digest),
		})
	})
	return kept, err
}
