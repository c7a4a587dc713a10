package store

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// CertificateDeniedEvent says that one certificate of a node was denied.
const CertificateDeniedEvent = "node.certificate.denied"

// DenyOperator begins the reason of a denial for which an operator asked. The prefix keeps
// an operator's words apart from the reasons that open a way, such as DenyRotated.
const DenyOperator = "operator: "

// DeniedButAnswered reports whether a certificate that is denied for a reason still gets a
// connection, so that its requests are refused one by one. One that a rotation has replaced
// does: the refusal tells the node what to do, and a renewal with it that another has the
// key. So does one from before the machine was given back: that its system lives is to be
// told of, and it is answered the same when a person knows that.
func DeniedButAnswered(reason string) bool {
	return reason == DenyRotated || reason == DenyReleased || reason == DenyKnown
}

// Deny puts a certificate on the deny list. A certificate that is on the list already stays
// there for the reason that it has, and nothing is audited. An operator's denial takes the
// place of a reason for which the certificate would still be answered.
// Codes: certificate_not_found.
func (db *DB) Deny(ctx context.Context, actor broker.Actor, serial, reason string) error {
	c, err := db.Certificate(ctx, serial)
	if err != nil {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, c.NodeID, t.forUpdate()) // no renewal of the certificate is under way
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
			Data: map[string]any{"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "serial": serial, "reason": words, "by": actor.Name},
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
		if _, err := node(ctx, t, nodeID, t.forUpdate()); err != nil {
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

// denyWhere denies what is not denied yet; the condition's own argument is $3.
func (t *tx) denyWhere(ctx context.Context, reason, condition string, args ...any) error {
	serials, err := collect(ctx, t, scanText, `UPDATE certificates SET denied_at = $1, deny_reason = $2
		WHERE denied_at = 0 AND `+condition+` RETURNING serial`, append([]any{micros(t.now), reason}, args...)...)
	for _, s := range serials {
		t.hint(HintDeny, s)
	}
	return err
}

func scanText(row interface{ Scan(...any) error }) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// denyList is read every two seconds. The sum keeps it off the index of when certificates
// end, which leads to all that are in force; few of those are denied.
const denyList = `SELECT serial, deny_reason FROM certificates WHERE denied_at > 0 AND not_after + 0 >= $1`

// DenyList is the denied certificates that run out after a time, by serial with
// the reason. What is good for nothing any more needs no denial, and every broker
// reads the list every two seconds.
func (db *DB) DenyList(ctx context.Context, after time.Time) (map[string]string, error) {
	rows, err := db.reader().QueryContext(ctx, denyList, micros(after))
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
