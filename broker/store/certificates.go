package store

import (
	"context"
	"crypto"
	"crypto/x509"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
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

func scanCert(row interface{ Scan(...any) error }) (Certificate, error) {
	var c Certificate
	err := row.Scan(&c.Serial, &c.NodeID, &c.Epoch, &c.PublicKey, &c.PublicKeyDigest, at(&c.NotBefore), at(&c.NotAfter), at(&c.IssuedAt), at(&c.DeniedAt), &c.DenyReason)
	return c, err
}

func (t *tx) addCert(ctx context.Context, nodeID string, epoch int64, keyDigest string, c IssuedCert) error {
	_, err := t.ExecContext(ctx, `INSERT INTO certificates (serial, node_id, epoch, public_key, key_digest, pem, not_before, not_after, issued_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.Serial, nodeID, epoch, c.PublicKey, keyDigest, c.PEM, micros(c.NotBefore), micros(c.NotAfter), micros(t.now))
	return err
}

func (t *tx) issuedCert(ctx context.Context, serial string) (IssuedCert, error) {
	c := IssuedCert{Serial: serial}
	err := t.QueryRowContext(ctx, `SELECT pem, public_key, not_before, not_after FROM certificates WHERE serial = $1`, serial).
		Scan(&c.PEM, &c.PublicKey, at(&c.NotBefore), at(&c.NotAfter))
	return c, err
}

// Renewal is a certificate for a node that has one.
type Renewal struct {
	NodeID          string
	Epoch           int64
	OldSerial       string
	PublicKeyDigest string
	Cert            IssuedCert
	Report          NodeReport
	TrustVersion    int64 // what the node says it has in force
	Late            bool  // the old one had run out: audited as late_renewal
	Remote          string
}

// RecordRenewal keeps a new certificate and what the node reported with the
// request. While a rotation's certificate waits to be heard, nobody who has its
// key renews another: identity_conflict, and the node is quarantined. Codes,
// audited: certificate_denied, epoch_superseded, node_deleted, identity_conflict.
func (db *DB) RecordRenewal(ctx context.Context, r Renewal) (n broker.Node, err error) {
	var answer *broker.Error // a refusal that leaves something behind
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		answer = nil
		if n, err = node(ctx, t, r.NodeID, t.forUpdate()); err != nil {
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
			answer, err = t.secondHolder(ctx, n, open, r.Remote, "certificate "+r.OldSerial+" renews while a rotation replaces it")
			return err
		}
		if err := t.addCert(ctx, r.NodeID, r.Epoch, r.PublicKeyDigest, r.Cert); err != nil {
			return err
		}
		n.CertNotAfter = r.Cert.NotAfter.UTC()
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET cert_not_after = $1, updated_at = $2 WHERE id = $3`, micros(r.Cert.NotAfter), micros(t.now), r.NodeID); err != nil {
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

// mayRenew refuses who may not have another certificate for what they show.
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
		return refuse(broker.Errorf(broker.Forbidden, "certificate_denied", "cannot renew certificate %s of node %s: it is denied, or not on record (enrol the node again)", r.OldSerial, r.NodeID), e)
	}
	return nil
}

func superseded(n broker.Node, epoch int64) *broker.Error {
	return broker.Errorf(broker.Forbidden, "epoch_superseded", "node %s has enrolled again: epoch %d is over, it is at %d", n.ID, epoch, n.Epoch)
}

// Certificate reads one by its serial. Codes: certificate_not_found.
func (db *DB) Certificate(ctx context.Context, serial string) (Certificate, error) {
	c, err := scanCert(db.reader().QueryRowContext(ctx, `SELECT `+certColumns+` FROM certificates WHERE serial = $1`, serial))
	if errors.Is(err, sql.ErrNoRows) {
		return c, broker.Errorf(broker.NotFound, "certificate_not_found", "there is no certificate %q on record", serial)
	}
	return c, err
}

// Certificates lists a node's, oldest first.
func (db *DB) Certificates(ctx context.Context, nodeID string) ([]Certificate, error) {
	return collect(ctx, db.reader(), scanCert, `SELECT `+certColumns+` FROM certificates WHERE node_id = $1 ORDER BY issued_at, serial`, nodeID)
}

// IssuedCerts are those of one enrolment of a node that were issued by a moment, as
// they were answered, newest first.
func (db *DB) IssuedCerts(ctx context.Context, nodeID string, epoch int64, by time.Time) ([]IssuedCert, error) {
	return collect(ctx, db.reader(), func(row interface{ Scan(...any) error }) (c IssuedCert, err error) {
		return c, row.Scan(&c.Serial, &c.PEM, &c.PublicKey, at(&c.NotBefore), at(&c.NotAfter))
	}, `SELECT serial, pem, public_key, not_before, not_after FROM certificates WHERE node_id = $1 AND epoch = $2 AND issued_at <= $3 ORDER BY issued_at DESC, serial`, nodeID, epoch, micros(by))
}

// DropCertificates removes, of those that ran out before a moment, the ones whose key a
// later certificate of the same enrolment certifies: what was signed with the key can
// still be verified, who has the key is still known, and the newest of each stays for ever.
// It removes at most limit, and says how many.
func (db *DB) DropCertificates(ctx context.Context, before time.Time, limit int) (dropped int64, err error) {
	// Looked for outside the transaction: what has run out does not come back.
	serials, err := collect(ctx, db.reader(), scanText, `SELECT serial FROM certificates c WHERE not_after < $1 AND EXISTS
		(SELECT 1 FROM certificates n WHERE n.key_digest = c.key_digest AND n.node_id = c.node_id AND n.epoch = c.epoch AND n.not_after > c.not_after)
		ORDER BY not_after LIMIT $2`, micros(before), limit)
	if err != nil || len(serials) == 0 {
		return 0, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped = 0
		for _, serial := range serials {
			n, err := changed(t.ExecContext(ctx, `DELETE FROM certificates WHERE serial = $1`, serial))
			if err != nil {
				return err
			}
			dropped += n
		}
		return t.audit(ctx, broker.AuditEntry{Actor: "system", Action: "certificate.dropped", Subject: "certificates", After: small("certificates", dropped, "ran_out_before", before.UTC().Format(time.RFC3339))})
	})
	return dropped, err
}

// CertKey returns the public key that a certificate on record certifies.
func (db *DB) CertKey(ctx context.Context, serial string) (crypto.PublicKey, error) {
	c, err := db.Certificate(ctx, serial)
	if err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(c.PublicKey)
}
