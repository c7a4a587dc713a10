package store

import (
	"context"
	"crypto"
	"crypto/x509"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Certificate is a node certificate on record.
type Certificate struct {
	Serial, NodeID      string
	Epoch               int64
	PublicKey           []byte // SPKI DER
	PublicKeyDigest     string
	NotBefore, NotAfter time.Time
	IssuedAt            time.Time
	DeniedAt            time.Time // zero: not denied
	DenyReason          string
}

const certColumns = `serial, node_id, epoch, public_key, key_digest, not_before, not_after, issued_at, denied_at, deny_reason`

func scanCert(row sqlkit.Row) (Certificate, error) {
	var c Certificate
	err := row.Scan(&c.Serial, &c.NodeID, &c.Epoch, &c.PublicKey, &c.PublicKeyDigest, sqlkit.ScanMicros(&c.NotBefore),
		sqlkit.ScanMicros(&c.NotAfter), sqlkit.ScanMicros(&c.IssuedAt), sqlkit.ScanMicros(&c.DeniedAt), &c.DenyReason)
	return c, err
}

func (t *tx) addCert(ctx context.Context, nodeID string, epoch int64, keyDigest string, c IssuedCert) error {
	_, err := t.ExecContext(ctx,
		`INSERT INTO certificates (serial, node_id, epoch, public_key, key_digest, pem, not_before, not_after, issued_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.Serial, nodeID, epoch, c.PublicKey, keyDigest, c.PEM, sqlkit.Micros(c.NotBefore), sqlkit.Micros(c.NotAfter), sqlkit.Micros(t.now))
	return err
}

func (t *tx) issuedCert(ctx context.Context, serial string) (IssuedCert, error) {
	c := IssuedCert{Serial: serial}
	err := t.QueryRowContext(ctx, `SELECT pem, public_key, not_before, not_after FROM certificates WHERE serial = $1`, serial).
		Scan(&c.PEM, &c.PublicKey, sqlkit.ScanMicros(&c.NotBefore), sqlkit.ScanMicros(&c.NotAfter))
	return c, err
}

// Renewal is a new certificate for a node that already has a certificate.
type Renewal struct {
	NodeID          string
	Epoch           int64
	OldSerial       string
	PublicKeyDigest string
	Cert            IssuedCert
	Report          NodeReport
	TrustVersion    int64 // the trust bundle version that the node reports to have in force
	Late            bool  // the old certificate had expired: audited as late_renewal
	Remote          string
}

// RecordRenewal stores a new certificate and the node's report sent with the request. While a
// rotation's certificate waits for its first use, every renewal is refused with identity_conflict,
// and the node is quarantined: see secondHolder. Codes, audited: certificate_denied,
// epoch_superseded, node_deleted, identity_conflict.
func (db *DB) RecordRenewal(ctx context.Context, r Renewal) (n broker.Node, err error) {
	var answer *broker.Error // a refusal whose writes are kept
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		answer = nil
		if n, err = node(ctx, t, r.NodeID, t.ForUpdate()); err != nil {
			return err
		}
		e := entry(nodeActor(r.NodeID), "node.renew", r.NodeID)
		if r.Late {
			e.Action = "node.late_renewal"
		}
		if err := t.mayRenew(ctx, n, r, e); err != nil {
			return err
		}
		if open, ok, err := t.openRotation(ctx, n.ID, n.Epoch); err != nil {
			return err
		} else if ok {
			answer, err = t.secondHolder(ctx, n, open, r.Remote,
				"a renewal request used certificate "+r.OldSerial+", which a rotation is replacing")
			return err
		}
		if err := t.addCert(ctx, r.NodeID, r.Epoch, r.PublicKeyDigest, r.Cert); err != nil {
			return err
		}
		n.CertNotAfter = r.Cert.NotAfter.UTC()
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET cert_not_after = $1, updated_at = $2 WHERE id = $3`,
			sqlkit.Micros(r.Cert.NotAfter), sqlkit.Micros(t.now), r.NodeID); err != nil {
			return err
		}
		if err := t.saveReport(ctx, &n, r.Report); err != nil {
			return err
		}
		if err := t.confirmTrust(ctx, &n, r.TrustVersion); err != nil {
			return err
		}
		e.Before, e.After = small("serial", r.OldSerial), small("serial", r.Cert.Serial, "key", r.PublicKeyDigest)
		return t.audit(ctx, e)
	})
	if err == nil && answer != nil {
		err = answer
	}
	return n, err
}

// mayRenew refuses a renewal that the old certificate does not allow.
func (t *tx) mayRenew(ctx context.Context, n broker.Node, r Renewal, e broker.AuditEntry) error {
	old, err := scanCert(t.QueryRowContext(ctx, `SELECT `+certColumns+` FROM certificates WHERE serial = $1`, r.OldSerial))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case n.Status == broker.Deleted:
		return refuse(nodeDeleted(n), e)
	case n.Epoch != r.Epoch:
		return refuse(superseded(n, r.Epoch), e)
	case old.NodeID != r.NodeID || !old.DeniedAt.IsZero():
		return refuse(broker.Errorf(broker.Forbidden, "certificate_denied",
			"cannot renew certificate %s of node %s: the certificate is denied or not on record (enrol the node again)", r.OldSerial,
			r.NodeID), e)
	}
	return nil
}

func superseded(n broker.Node, epoch int64) *broker.Error {
	return broker.Errorf(broker.Forbidden, "epoch_superseded", "node %s has enrolled again: epoch %d is superseded by epoch %d", n.ID,
		epoch, n.Epoch)
}

// Certificate reads a certificate by its serial. Codes: certificate_not_found.
func (db *DB) Certificate(ctx context.Context, serial string) (Certificate, error) {
	c, err := scanCert(db.reader().QueryRowContext(ctx, `SELECT `+certColumns+` FROM certificates WHERE serial = $1`, serial))
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "certificate_not_found", "there is no certificate %q on record", serial)
	}
	return c, err
}

// Certificates lists a node's certificates, oldest first.
func (db *DB) Certificates(ctx context.Context, nodeID string) ([]Certificate, error) {
	return sqlkit.Collect(ctx, db.reader(), scanCert, `SELECT `+certColumns+
		` FROM certificates WHERE node_id = $1 ORDER BY issued_at, serial`, nodeID)
}

// IssuedCerts returns the certificates of a node's enrolment issued up to a time, as the node
// received them, newest first.
func (db *DB) IssuedCerts(ctx context.Context, nodeID string, epoch int64, by time.Time) ([]IssuedCert, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c IssuedCert, err error) {
		return c, row.Scan(&c.Serial, &c.PEM, &c.PublicKey, sqlkit.ScanMicros(&c.NotBefore), sqlkit.ScanMicros(&c.NotAfter))
	}, `SELECT serial, pem, public_key, not_before, not_after FROM certificates WHERE node_id = $1 AND epoch = $2 AND issued_at <= $3 ORDER BY issued_at DESC, serial`, nodeID, epoch, sqlkit.Micros(by))
}

// DropCertificates deletes certificates that expired before a time, if a later certificate of the
// same enrolment certifies the same key. Signatures by the key can still be verified, the owner of
// the key is still known, and the newest certificate of each key stays for ever. It deletes at most
// limit certificates, and returns their number.
func (db *DB) DropCertificates(ctx context.Context, before time.Time, limit int) (dropped int64, err error) {
	// Selected outside the transaction: an expired certificate stays expired.
	serials, err := sqlkit.Collect(ctx, db.reader(), scanText, `SELECT serial FROM certificates c WHERE not_after < $1 AND EXISTS
		(SELECT 1 FROM certificates n WHERE n.key_digest = c.key_digest AND n.node_id = c.node_id AND n.epoch = c.epoch AND n.not_after > c.not_after)
		ORDER BY not_after LIMIT $2`, sqlkit.Micros(before), limit)
	if err != nil || len(serials) == 0 {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped = 0
		for _, serial := range serials {
			n, err := sqlkit.Changed(t.ExecContext(ctx, `DELETE FROM certificates WHERE serial = $1`, serial))
			if err != nil {
				return err
			}
			dropped += n
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: "system", Action: "certificate.dropped", Subject: "certificates",
			After: small("certificates", dropped, "ran_out_before", before.UTC().Format(time.RFC3339)),
		})
	})
	return dropped, err
}

// CertKey returns the public key of a certificate on record.
func (db *DB) CertKey(ctx context.Context, serial string) (crypto.PublicKey, error) {
	c, err := db.Certificate(ctx, serial)
	if err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(c.PublicKey)
}
