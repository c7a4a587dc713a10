package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/pki"
)

// DenyRotated is the deny reason of a certificate that a rotation has replaced; denyVoid is the
// reason of a certificate whose rotation will never come into force.
const (
	DenyRotated  = "identity_rotated"
	denyVoid     = "rotation_void"
	rotateTask   = "node.rotate_identity"
	rotateAction = "node.rotate_identity"
)

// Rotation is the outcome of a node.rotate_identity task.
type Rotation struct {
	TaskID, NodeID    string
	Epoch             int64
	KeyDigest, Serial string // of the new key and its certificate
	Remote            string // address of the request
	IssuedAt          time.Time
	UsedAt            time.Time // zero: the node has not used the certificate yet
	VoidAt            time.Time // zero: the rotation may come into force, or has
	ConflictAt        time.Time
}

const rotationColumns = `task_id, node_id, epoch, key_digest, serial, remote, issued_at, used_at, void_at, conflict_at`

func scanRotation(row sqlkit.Row) (r Rotation, err error) {
	err = row.Scan(&r.TaskID, &r.NodeID, &r.Epoch, &r.KeyDigest, &r.Serial, &r.Remote, sqlkit.ScanMicros(&r.IssuedAt),
		sqlkit.ScanMicros(&r.UsedAt), sqlkit.ScanMicros(&r.VoidAt), sqlkit.ScanMicros(&r.ConflictAt))
	return r, err
}

// rotationWhere reads a rotation; ok is false if there is none.
func rotationWhere(ctx context.Context, r sqlkit.Runner, condition string, args ...any) (got Rotation, ok bool, err error) {
	got, err = scanRotation(r.QueryRowContext(ctx, `SELECT `+rotationColumns+` FROM rotations WHERE `+condition, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return got, false, nil
	}
	return got, err == nil, err
}

// Rotation reads a task's rotation; ok is false if the task has none.
func (db *DB) Rotation(ctx context.Context, taskID string) (r Rotation, ok bool, err error) {
	return rotationWhere(ctx, db.reader(), `task_id = $1`, taskID)
}

// openRotation reads the rotation whose certificate is issued and not used yet.
func (t *tx) openRotation(ctx context.Context, nodeID string, epoch int64) (Rotation, bool, error) {
	return rotationWhere(ctx, t, `node_id = $1 AND epoch = $2 AND used_at = 0 AND void_at = 0`, nodeID, epoch)
}

// Rotate issues a certificate for a node's new key, on the request of the node's rotation task
// while the node holds the task's lease. It returns r's certificate, or the certificate already
// issued to the same task for the same key, until the node uses that certificate. Existing
// certificates stay unchanged until RotationUsed. Codes, audited: task_not_found, not_a_rotation,
// epoch_superseded, lease_lost, rotation_over, rotation_same_key, rotation_key_known,
// rotation_too_soon, identity_conflict, certificate_denied, node_deleted.
func (db *DB) Rotate(ctx context.Context, taskID string, r Renewal) (cert IssuedCert, err error) {
	var answer *broker.Error // a refusal whose writes are kept
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		cert, answer, err = t.rotate(ctx, taskID, r)
		return err
	})
	if err == nil && answer != nil {
		err = answer
	}
	return cert, err
}

func (t *tx) rotate(ctx context.Context, taskID string, r Renewal) (cert IssuedCert, answer *broker.Error, err error) {
	n, err := node(ctx, t, r.NodeID, t.ForUpdate())
	if err != nil {
		return cert, nil, err
	}
	e := entry(nodeActor(r.NodeID), rotateAction, r.NodeID)
	no := func(kind broker.Kind, code, format string, args ...any) (IssuedCert, *broker.Error, error) {
		return IssuedCert{}, nil,
			refuse(broker.Errorf(kind, code, "cannot issue a certificate for a new key of node "+n.ID+": "+format, args...), e)
	}
	if err := t.mayRenew(ctx, n, r, e); err != nil {
		return cert, nil, err
	}
	k, err := task(ctx, t, taskID, t.ForUpdate())
	if _, ours := errors.AsType[*broker.Error](err); ours || err == nil && k.NodeID != n.ID {
		return no(broker.NotFound, "task_not_found", "the node has no such task")
	} else if err != nil {
		return cert, nil, err
	}
	e.CorrelationID = k.CorrelationID
	switch {
	case k.Type != rotateTask:
		return no(broker.Refused, "not_a_rotation", "task %s is of type %s", k.ID, k.Type)
	case k.NodeEpoch != r.Epoch:
		return no(broker.Forbidden, "epoch_superseded", "task %s is for epoch %d, and the node is at epoch %d", k.ID, k.NodeEpoch, r.Epoch)
	}
	had, again, err := rotationWhere(ctx, t, `task_id = $1`, taskID)
	switch {
	case err != nil:
		return cert, nil, err
	case again && (!had.VoidAt.IsZero() || !had.UsedAt.IsZero()):
		return no(broker.Refused, "rotation_over", "the rotation of task %s is over", k.ID)
	case again && had.KeyDigest != r.PublicKeyDigest:
		answer, err = t.secondHolder(ctx, n, had, r.Remote,
			"a request of task "+k.ID+" names another key than the one already certified for this task")
		return cert, answer, err
	case again && k.Status.Ended():
		// The node has no other way to learn that this key will never come into force.
		if err := t.voidRotation(ctx, had); err != nil {
			return cert, nil, err
		}
		answer = broker.Errorf(broker.Refused, "rotation_over",
			"cannot issue a certificate for a new key of node %s: task %s has ended as %s", n.ID, k.ID, k.Status)
		e.Code, e.Reason = answer.Code, answer.Message
		return cert, answer, t.audit(ctx, e)
	case again:
		cert, err = t.issuedCert(ctx, had.Serial)
		return cert, nil, err
	case k.Status.Ended():
		return no(broker.Refused, "rotation_over", "task %s has ended as %s", k.ID, k.Status)
	case k.Status != broker.TaskDispatched, !t.now.Before(k.LeaseUntil), k.CancelRequested:
		return no(broker.Refused, "lease_lost", "the node does not hold the lease of task %s", k.ID)
	}
	return t.newKey(ctx, n, k, r, e, no)
}

// newKey stores a certificate for a key that no node has had before.
func (t *tx) newKey(
	ctx context.Context, n broker.Node, k broker.Task, r Renewal, e broker.AuditEntry,
	no func(broker.Kind, string, string, ...any) (IssuedCert, *broker.Error, error),
) (cert IssuedCert, answer *broker.Error, err error) {
	var present string
	if err := t.QueryRowContext(ctx, `SELECT key_digest FROM certificates WHERE serial = $1`, r.OldSerial).Scan(&present); err != nil {
		return cert, nil, err
	}
	var known bool
	if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM certificates WHERE key_digest = $1)`,
		r.PublicKeyDigest).Scan(&known); err != nil {
		return cert, nil, err
	}
	var latest int64
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(not_before), 0) FROM certificates WHERE node_id = $1 AND epoch = $2`, n.ID,
		n.Epoch).Scan(&latest); err != nil {
		return cert, nil, err
	}
	switch {
	case present == r.PublicKeyDigest:
		return no(broker.Refused, "rotation_same_key", "the request names the node's present key")
	case known:
		return no(broker.Refused, "rotation_key_known", "the request names a key that was already certified")
	case sqlkit.Micros(r.Cert.NotBefore) <= latest:
		// Certificates begin at whole seconds: a certificate for the old key that begins in the
		// same second as the new key's would look like a certificate issued after the rotation.
		return no(broker.TooMany, "rotation_too_soon", "a certificate for the old key was issued within this second (retry)")
	}
	earlier, ok, err := t.openRotation(ctx, n.ID, n.Epoch)
	if err != nil {
		return cert, nil, err
	}
	if ok { // of a task that ended without a report of the node
		if err := t.voidRotation(ctx, earlier); err != nil {
			return cert, nil, err
		}
	}
	if err := t.addCert(ctx, n.ID, n.Epoch, r.PublicKeyDigest, r.Cert); err != nil {
		return cert, nil, err
	}
	if _, err := t.ExecContext(ctx,
		`INSERT INTO rotations (task_id, node_id, epoch, key_digest, serial, remote, issued_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		k.ID, n.ID, n.Epoch, r.PublicKeyDigest, r.Cert.Serial, r.Remote, sqlkit.Micros(t.now)); err != nil {
		return cert, nil, err
	}
	if err := t.saveReport(ctx, &n, r.Report); err != nil {
		return cert, nil, err
	}
	e.Reason = "task " + k.ID
	e.Before, e.After = small("serial", r.OldSerial, "key", present), small("serial", r.Cert.Serial, "key", r.PublicKeyDigest)
	return r.Cert, nil, t.audit(ctx, e)
}

// RotationUsed handles the first request with a certificate on this broker. If a rotation issued
// the certificate and the certificate was never used before, it becomes the node's, and all other
// certificates of the node are denied. used reports whether this call did so. Codes:
// node_not_found, epoch_superseded, certificate_denied.
func (db *DB) RotationUsed(ctx context.Context, nodeID string, epoch int64, serial string) (used bool, err error) {
	if r, ok, err := rotationWhere(ctx, db.reader(), `serial = $1`, serial); err != nil || !ok || !r.UsedAt.IsZero() {
		return false, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		used = false
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		r, ok, err := rotationWhere(ctx, t, `serial = $1`, serial)
		switch {
		case err != nil || !ok || !r.UsedAt.IsZero():
			return err
		case n.Epoch != epoch:
			return superseded(n, epoch)
		case !r.VoidAt.IsZero() || r.NodeID != nodeID:
			return broker.Errorf(broker.Forbidden, "certificate_denied",
				"cannot act for node %s: certificate %s belongs to a rotation that is over", nodeID, serial)
		}
		cert, err := t.issuedCert(ctx, serial)
		if err != nil {
			return err
		}
		used = true
		if _, err := t.ExecContext(ctx, `UPDATE rotations SET used_at = $1 WHERE task_id = $2`, sqlkit.Micros(t.now),
			r.TaskID); err != nil {
			return err
		}
		if err := t.denyWhere(ctx, DenyRotated, `node_id = $3 AND serial <> $4`, nodeID, serial); err != nil {
			return err
		}
		since := identitySince(cert)
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET identity_since = $1, cert_not_after = $2, updated_at = $3 WHERE id = $4`,
			sqlkit.Micros(since), sqlkit.Micros(cert.NotAfter), sqlkit.Micros(t.now), nodeID); err != nil {
			return err
		}
		e := entry(nodeActor(nodeID), "node.identity_rotated", nodeID)
		e.Reason = "task " + r.TaskID
		e.Before, e.After = small("identity_since", n.IdentitySince), small("identity_since", since, "serial", serial, "key", r.KeyDigest)
		return t.audit(ctx, e)
	})
	return used && err == nil, err
}

// identitySince returns when a key was certified. Every certificate for an earlier key begins
// before that time, and every certificate for this key then or later.
func identitySince(first IssuedCert) time.Time { return first.NotBefore.Add(pki.Backdate).UTC() }

// voidRotation makes sure that an unused certificate is never used.
func (t *tx) voidRotation(ctx context.Context, r Rotation) error {
	n, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE rotations SET void_at = $1 WHERE task_id = $2 AND used_at = 0 AND void_at = 0`,
		sqlkit.Micros(t.now), r.TaskID))
	if err != nil || n == 0 {
		return err
	}
	return t.denyWhere(ctx, denyVoid, `serial = $3`, r.Serial)
}
