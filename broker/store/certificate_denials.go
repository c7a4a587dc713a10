package store

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// CertificateDeniedEvent announces that a certificate of a node was denied.
const CertificateDeniedEvent = "node.certificate.denied"

// DenyOperator is the prefix of a denial's reason that an operator gave. The prefix keeps
// operators' words apart from reasons with a meaning for the broker, such as DenyRotated.
const DenyOperator = "operator: "

// DeniedButAnswered reports whether a certificate denied for a reason still gets a connection, so
// that its requests are refused one by one. A certificate replaced by a rotation does: the refusal
// tells the node what to do, and a renewal with the old certificate shows that another holder has
// the key. A certificate from before the machine was given back does too: the broker must announce
// that the former system lives, and the answer stays the same after a person has acknowledged the
// system.
func DeniedButAnswered(reason string) bool {
	return reason == DenyRotated || reason == DenyReleased || reason == DenyKnown
}

// Deny puts a certificate on the deny list. A certificate already on the list keeps its reason, and
// nothing is audited. Exception: an operator's denial replaces a reason for which the certificate
// would still be answered. Codes: certificate_not_found.
func (db *DB) Deny(ctx context.Context, actor broker.Actor, serial, reason string) error {
	c, err := db.Certificate(ctx, serial)
	if err != nil {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, c.NodeID, t.ForUpdate()) // no renewal of the certificate is under way
		if err != nil {
			return err
		}
		c, err := scanCert(t.QueryRowContext(ctx, `SELECT `+certColumns+` FROM certificates WHERE serial = $1`, serial))
		if err != nil {
			return err
		}
		switch {
		case c.DeniedAt.IsZero():
			err = t.denyWhere(ctx, reason, `serial = $3`, serial)
		case strings.HasPrefix(reason, DenyOperator) && DeniedButAnswered(c.DenyReason):
			_, err = t.ExecContext(ctx, `UPDATE certificates SET deny_reason = $1 WHERE serial = $2`, reason, serial)
			t.hint(HintDeny, serial)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		words := strings.TrimPrefix(reason, DenyOperator)
		if err := t.send(ctx, told{Site: n.Site, CorrelationID: correlationOf(ctx), Message: chain.Message{
			Type: CertificateDeniedEvent, Subject: "node/" + n.ID,
			Data: map[string]any{
				"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "serial": serial, "reason": words,
				"by": actor.Name,
			},
		}}); err != nil {
			return err
		}
		e := entry(actor, "certificate.deny", c.NodeID)
		e.Reason, e.After = words, small("serial", serial, "key", c.PublicKeyDigest)
		if c.DenyReason != "" {
			e.Before = small("denied_for", c.DenyReason)
		}
		return t.audit(ctx, e)
	})
}

// DenyNode denies every certificate of a node.
func (db *DB) DenyNode(ctx context.Context, actor broker.Actor, nodeID, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
			return err
		}
		if err := t.denyWhere(ctx, reason, `node_id = $3`, nodeID); err != nil {
			return err
		}
		if err := t.shutRestored(ctx, nodeID); err != nil {
			return err
		}
		e := entry(actor, "certificate.deny", nodeID)
		e.Reason = reason
		return t.audit(ctx, e)
	})
}

// denyWhere denies certificates not yet denied; the condition's own arguments begin at $3.
func (t *tx) denyWhere(ctx context.Context, reason, condition string, args ...any) error {
	serials, err := sqlkit.Collect(ctx, t, scanText, `UPDATE certificates SET denied_at = $1, deny_reason = $2
		WHERE denied_at = 0 AND `+condition+` RETURNING serial`, append([]any{sqlkit.Micros(t.now), reason}, args...)...)
	for _, s := range serials {
		t.hint(HintDeny, s)
	}
	return err
}

func scanText(row sqlkit.Row) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// denyList is read every two seconds. The sum keeps the query off the index of expiry times, which
// covers all certificates in force; few of them are denied.
const denyList = `SELECT serial, deny_reason FROM certificates WHERE denied_at > 0 AND not_after + 0 >= $1`

// DenyList returns the denied certificates that expire after a time, by serial, with the reason. An
// expired certificate needs no denial, and every broker reads the list every two seconds.
func (db *DB) DenyList(ctx context.Context, after time.Time) (map[string]string, error) {
	rows, err := db.reader().QueryContext(ctx, denyList, sqlkit.Micros(after))
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	list := map[string]string{}
	for rows.Next() {
		var serial, reason string
		if err := rows.Scan(&serial, &reason); err != nil {
			return nil, err
		}
		list[serial] = reason
	}
	return list, rows.Err()
}
