package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// NodeReport is a node's report on itself, sent with enrolment and renewal.
type NodeReport struct {
	AgentVersion string
	TaskTypes    []string
	Capabilities map[string]string
	Facts        *taskcatalog.Facts      // nil: the node did not look
	Agent        *taskcatalog.AgentBuild // nil: an older agent that does not report its build
	Digest       string                  // of all but the version
}

// IssuedCert is an issued certificate, as returned to the node.
type IssuedCert struct {
	Serial              string // lower-case hex
	PEM                 string // leaf, then the chain up to the root
	PublicKey           []byte // SPKI DER
	NotBefore, NotAfter time.Time
}

// EnrollInput is an enrol request.
type EnrollInput struct {
	TokenHash       string // hex SHA-256 of the token
	PublicKeyDigest string
	MAASSystemID    string // as the node reports it
	Report          NodeReport
	TrustVersion    int64  // of the bundle in the answer
	Remote          string // address, for the audit log
	// Issue creates the certificate once all checks have passed. Issue runs inside the transaction
	// and may run again, so it must not use the store.
	Issue func(n broker.Node, epoch int64) (IssuedCert, error)
}

// Enrolled is the answer to an enrol request.
type Enrolled struct {
	Node   broker.Node
	Cert   IssuedCert
	Repeat bool // an earlier answer, repeated
}

// Enroll exchanges a one-time token for a node's first certificate of a new epoch. The same token
// with the same key gets the same certificate again until the node first uses the certificate,
// because an answer may be lost. Open tasks of an earlier enrolment end at FirstContact, not here.
// A key belongs to a single enrolment: an agent makes a new key for each token, so a key that was
// certified before is a copy, or belongs to a former system that got a new token. Codes, all
// audited, equal ones once a minute: token_unknown, token_used, token_expired,
// maas_system_mismatch, enrol_key_known, node_deleted.
func (db *DB) Enroll(ctx context.Context, in EnrollInput) (out Enrolled, err error) {
	var was former
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		out, was, err = t.enroll(ctx, in)
		return err
	})
	if was.serial == "" {
		return out, err
	}
	if told := db.PreviousSystem(ctx, was.nodeID, was.serial, in.Remote); told != nil {
		return out, told
	}
	return out, err
}

// former is a certificate from before a node's machine was given back, for a key that tries to
// enrol now.
type former struct{ nodeID, serial string }

func (t *tx) enroll(ctx context.Context, in EnrollInput) (out Enrolled, was former, err error) {
	refusal := broker.AuditEntry{Actor: remotePrefix + in.Remote, Action: "enroll.refused", Subject: nobody}
	token, err := scanToken(t.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM enroll_tokens WHERE hash = $1`, in.TokenHash))
	if errors.Is(err, sql.ErrNoRows) {
		return out, was,
			refuse(broker.Errorf(broker.Unauthorized, "token_unknown",
				"cannot enroll: this broker does not know the token (issue a new one: hostler node token)"), refusal)
	} else if err != nil {
		return out, was, err
	}
	n, err := node(ctx, t, token.NodeID, t.ForUpdate())
	if err != nil {
		return out, was, err
	}
	// The node's row is locked now; read the token again, as the previous holder may have changed
	// it.
	if token, err = scanToken(t.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM enroll_tokens WHERE hash = $1`,
		in.TokenHash)); err != nil {
		return out, was, err
	}
	refusal.Subject = "node/" + n.ID
	repeat := !token.UsedAt.IsZero() && token.ConsumedAt.IsZero() && token.KeyDigest == in.PublicKeyDigest
	switch {
	case n.Status == broker.Deleted:
		return out, was, refuse(nodeDeleted(n), refusal)
	case !token.VoidAt.IsZero():
		return out, was,
			refuse(broker.Errorf(broker.Refused, "token_used", "cannot enroll node %s: the token is void (issue a new one)", n.ID), refusal)
	case !token.UsedAt.IsZero() && !repeat:
		return out, was,
			refuse(broker.Errorf(broker.Refused, "token_used", "cannot enroll node %s: the token was used at %s (issue a new one)", n.ID,
				token.UsedAt.Format(time.RFC3339)), refusal)
	case !repeat && t.now.After(token.ExpiresAt):
		return out, was,
			refuse(broker.Errorf(broker.Refused, "token_expired",
				"cannot enroll node %s: the token expired at %s (extend it, or issue a new one)", n.ID,
				token.ExpiresAt.Format(time.RFC3339)), refusal)
	case n.MAASSystemID != "" && in.MAASSystemID != n.MAASSystemID:
		return out, was,
			refuse(broker.Errorf(broker.Refused, "maas_system_mismatch", "cannot enroll node %s: the token is for another MAAS machine",
				n.ID), refusal)
	case repeat:
		cert, err := t.issuedCert(ctx, token.Serial)
		return Enrolled{Node: n, Cert: cert, Repeat: true}, was, err
	}
	if known, err := t.certified(ctx, in.PublicKeyDigest); err != nil {
		return out, was, err
	} else if known.Serial != "" {
		if known.NodeID == n.ID && known.DenyReason == DenyReleased {
			was = former{n.ID, known.Serial}
		}
		return out, was,
			refuse(broker.Errorf(broker.Refused, "enrol_key_known",
				"cannot enroll node %s: its key was already certified, for node %s in epoch %d (an agent makes a new key for each token: if the agent's state was copied, remove that state and enroll again)", n.ID, known.NodeID, known.Epoch), refusal)
	}
	out, err = t.admit(ctx, in, n, token)
	return out, was, err
}

// certified finds the newest certificate for a key; an empty serial means none.
func (t *tx) certified(ctx context.Context, keyDigest string) (c Certificate, err error) {
	err = t.QueryRowContext(ctx,
		`SELECT node_id, epoch, serial, deny_reason FROM certificates WHERE key_digest = $1 ORDER BY not_before DESC, serial LIMIT 1`,
		keyDigest).
		Scan(&c.NodeID, &c.Epoch, &c.Serial, &c.DenyReason)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil
	}
	return c, err
}

// admit opens a new epoch.
func (t *tx) admit(ctx context.Context, in EnrollInput, n broker.Node, token enrollToken) (out Enrolled, err error) {
	before := n
	if err := t.forgetEnrolment(ctx, &n); err != nil {
		return out, err
	}
	if n.Epoch, err = t.nextEpoch(ctx, n); err != nil {
		return out, err
	}
	cert, err := in.Issue(n, n.Epoch)
	if err != nil {
		return out, err
	}
	if n.Status == broker.BootstrapIssued {
		if err := broker.Transition(n, broker.Enrolling, broker.OwnerOnboarding); err != nil {
			return out, err
		}
		n.Status, n.StatusReason = broker.Enrolling, "enrolled"
	}
	n.AgentVersion, n.TaskTypes, n.Capabilities, n.ReportDigest = in.Report.AgentVersion, in.Report.TaskTypes, in.Report.Capabilities,
		in.Report.Digest
	n.TrustVersion, n.EnrolledAt, n.CertNotAfter, n.UpdatedAt = in.TrustVersion, t.now, cert.NotAfter.UTC(), t.now
	n.IdentitySince = identitySince(cert)
	if _, err := t.ExecContext(ctx,
		`UPDATE nodes SET epoch = $1, status = $2, status_reason = $3, agent_version = $4, task_types = $5, capabilities = $6,
		report_digest = $7, trust_version = $8, enrolled_at = $9, cert_not_after = $10, identity_since = $11, updated_at = $12 WHERE id = $13`,
		n.Epoch, string(n.Status), n.StatusReason, n.AgentVersion, listText(n.TaskTypes), mapText(n.Capabilities),
		n.ReportDigest, n.TrustVersion, sqlkit.Micros(t.now), sqlkit.Micros(cert.NotAfter), sqlkit.Micros(n.IdentitySince),
		sqlkit.Micros(t.now), n.ID); err != nil {
		return out, err
	}
	if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET key_digest = $1, serial = $2, used_at = $3 WHERE hash = $4`,
		in.PublicKeyDigest, cert.Serial, sqlkit.Micros(t.now), token.Hash); err != nil {
		return out, err
	}
	if err := t.addCert(ctx, n.ID, n.Epoch, in.PublicKeyDigest, cert); err != nil {
		return out, err
	}
	if _, err := t.ExecContext(ctx, `UPDATE restored_nodes SET enrolled_at = $1 WHERE node_id = $2`, sqlkit.Micros(t.now),
		n.ID); err != nil {
		return out, err
	}
	if err := t.saveFacts(ctx, n.ID, in.Report.Facts); err != nil {
		return out, err
	}
	if err := t.saveBuild(ctx, n.ID, in.Report.Agent); err != nil {
		return out, err
	}
	// The resolver state of an earlier enrolment does not apply to this enrolment.
	if err := t.confirmResolver(ctx, &n, ""); err != nil {
		return out, err
	}
	if err := t.rewant(ctx, &n); err != nil {
		return out, err
	}
	after := []any{"epoch", n.Epoch, "status", n.Status, "serial", cert.Serial, "key", in.PublicKeyDigest}
	if n.Status != before.Status {
		if err := t.tellStatus(ctx, n, before.Status, nodeActor(n.ID).Name, correlationOf(ctx)); err != nil {
			return out, err
		}
		after = append(after, "owner", broker.OwnerOnboarding)
	}
	e := entry(nodeActor(n.ID), "node.enroll", n.ID)
	e.Reason = "from " + in.Remote
	e.Before = small("epoch", before.Epoch, "status", before.Status)
	e.After = small(after...)
	return Enrolled{Node: n, Cert: cert}, t.audit(ctx, e)
}

func listText(l []string) string {
	if l == nil {
		l = []string{}
	}
	return sqlkit.JSON(l)
}

func mapText(m map[string]string) string {
	if m == nil {
		m = map[string]string{}
	}
	return sqlkit.JSON(m)
}
