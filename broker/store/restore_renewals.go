package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// BeforeRestore reports whether a certificate is from before the last restore: marked, or not on
// record. Call BeforeRestore only if the database was restored.
func (db *DB) BeforeRestore(ctx context.Context, serial string) (bool, error) {
	var restored bool
	err := db.reader().QueryRowContext(ctx, `SELECT restored FROM certificates WHERE serial = $1`, serial).Scan(&restored)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return restored, err
}

// RestoredRenewal is a renewal request with a certificate from before the restore.
type RestoredRenewal struct {
	Renewal
	Since time.Time // when the presented certificate became valid
	Said  int64     // the trust bundle version that the node reports
}

// RenewRestored judges a renewal request with a certificate from before the restore, and stores the
// new certificate if the node is let in. The old certificate proves only that our CA has issued it:
// the broker cannot know whether the certificate was denied since the backup. Therefore MAAS, while
// the database is held, or an operator must vouch for the identity. Of several identities of a
// node, the newest by epoch and then by issue is the node's. An older identity is refused, and the
// certificates already issued to the older identity are denied. Codes: restored_undecided,
// restored_unknown_node, restored_not_accepted, epoch_superseded, certificate_denied, node_deleted.
func (db *DB) RenewRestored(ctx context.Context, r RestoredRenewal) (n broker.Node, err error) {
	var answer error // a refusal whose writes are kept
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		answer = nil
		n, answer, err = t.renewRestored(ctx, r)
		return err
	})
	if err == nil {
		err = answer
	}
	return n, err
}

func (t *tx) renewRestored(ctx context.Context, r RestoredRenewal) (n broker.Node, answer, err error) {
	e := entry(nodeActor(r.NodeID), "node.restored_renewal", r.NodeID)
	e.Before = small("serial", r.OldSerial, "epoch", r.Epoch)
	if n, err = node(ctx, t, r.NodeID, t.ForUpdate()); err != nil {
		if broker.AsError(err).Code != "node_not_found" {
			return n, nil, err
		}
		if err := t.askedBy(ctx, RestoredNode{NodeID: r.NodeID}, r); err != nil {
			return n, nil, err
		}
		answer = broker.Errorf(broker.Forbidden, "restored_unknown_node",
			"cannot renew for node %s: its record was created after the backup from which this database was restored (add it again: hostler node adopt or hostler node create)", r.NodeID)
		err = t.noteDifference(ctx, Difference{
			Subject: "node/" + r.NodeID, Code: "node_unknown",
			Text: fmt.Sprintf("the node has a certificate of this broker, of epoch %d, and is not in the backup: its record was created after the backup", r.Epoch),
		})
		return n, answer, err
	}
	if answer, err = t.mayRenewRestored(ctx, n, r); answer != nil || err != nil {
		return n, answer, err
	}
	was, err := scanRestoredNode(t.QueryRowContext(ctx, `SELECT `+restoredNodeColumns+` FROM restored_nodes WHERE node_id = $1`, n.ID))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return n, nil, err
	}
	was.NodeID = n.ID
	own := was.accepts(r) || was.letIn(r)
	if !was.EnrolledAt.IsZero() {
		answer = broker.Errorf(broker.Forbidden, "epoch_superseded",
			"cannot renew certificate %s of node %s: the node has enrolled again since the restore", r.OldSerial, n.ID)
		return n, answer, nil
	}
	if was.AskedKey != "" && was.AskedKey != r.PublicKeyDigest && !own {
		if err := t.twoIdentities(ctx, was, r); err != nil {
			return n, nil, err
		}
		if !newer(r, was) {
			answer = broker.Errorf(broker.Forbidden, "epoch_superseded",
				"cannot renew certificate %s of node %s: a newer identity of the node has asked to renew", r.OldSerial, n.ID)
			return n, answer, nil
		}
	}
	if !own {
		if err := t.askedBy(ctx, was, r); err != nil {
			return n, nil, err
		}
	}
	held, err := lastRestore(ctx, t)
	if err != nil {
		return n, nil, err
	}
	if was.letIn(r) && n.LastAgentContactAt.After(was.LetInAt) {
		answer = broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: the certificate is from before the restore, and the node already uses a newer one (if the machine may have been copied, enrol the node again)", r.OldSerial, n.ID)
		return n, answer, t.twoIdentities(ctx, was, r)
	}
	if answer = judge(was, r, held.Held()); answer != nil {
		return n, answer, nil
	}
	e.After = small("serial", r.Cert.Serial, "key", r.PublicKeyDigest, "accepted_by", was.AcceptedBy, "machine", was.Machine)
	if n, err = t.readmit(ctx, n, was, r); err != nil {
		return n, nil, err
	}
	return n, nil, t.audit(ctx, e)
}

// judge decides whether MAAS or an operator vouches for this identity; nil: let in.
func judge(was RestoredNode, r RestoredRenewal, held bool) error {
	const accept = "see hostler-broker restore --list; if this is the node, run hostler-broker restore --accept %s --key KEY"
	switch {
	case !was.ShutAt.IsZero():
		return broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: the certificate is from before the restore, and the node was denied or retired afterwards (enrol the node again)", r.OldSerial, r.NodeID)
	case was.accepts(r):
		return nil
	case was.AcceptedBy != "":
		return broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: %s has accepted another key for the node ("+accept+")", r.OldSerial, r.NodeID,
			was.AcceptedBy, r.NodeID)
	case was.letIn(r):
		return nil // the earlier answer was lost
	case !held:
		return broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: the certificate is from before the restore, and the hold has been released ("+accept+
				")", r.OldSerial, r.NodeID, r.NodeID)
	case was.Machine == MachineNewer && r.Epoch > was.Epoch, was.Machine == MachineSame && r.Epoch >= was.Epoch:
		return nil
	case was.Machine == MachineNewer:
		return broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: according to MAAS its machine was deployed again after the backup, and this identity is from before that deployment", r.OldSerial, r.NodeID)
	case was.Machine == MachineOther:
		return broker.Errorf(broker.Forbidden, "restored_not_accepted",
			"cannot renew certificate %s of node %s: MAAS does not confirm that the machine belongs to the node (%s; "+accept+")",
			r.OldSerial, r.NodeID, was.MachineIs, r.NodeID)
	}
	return broker.Errorf(broker.Unavailable, "restored_undecided",
		"cannot renew for node %s yet: the database was restored from a backup, and neither MAAS nor an operator has confirmed yet that this is the node ("+accept+")", r.NodeID, r.NodeID)
}

// newer reports whether an identity replaces the identity that asked before.
func newer(r RestoredRenewal, was RestoredNode) bool {
	return r.Epoch > was.AskedEpoch || r.Epoch == was.AskedEpoch && r.Since.After(was.AskedSince)
}

// mayRenewRestored checks the records against an identity, from the backup and from since. A
// certificate issued after the backup is not on record, so it cannot be denied itself: a denial of
// another certificate with the same key and enrolment counts.
func (t *tx) mayRenewRestored(ctx context.Context, n broker.Node, r RestoredRenewal) (answer, err error) {
	var denied bool
	if err := t.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM certificates WHERE node_id = $1 AND denied_at > 0 AND (serial = $2 OR key_digest = $3 AND epoch >= $4))`,
		r.NodeID, r.OldSerial, r.PublicKeyDigest, r.Epoch).Scan(&denied); err != nil {
		return nil, err
	}
	switch {
	case n.Status == broker.Deleted:
		return nodeDeleted(n), nil
	case r.Epoch < n.Epoch:
		return superseded(n, r.Epoch), nil
	case denied:
		return broker.Errorf(broker.Forbidden, "certificate_denied",
			"cannot renew certificate %s of node %s: the certificate or its key is denied (enrol the node again)", r.OldSerial,
			r.NodeID), nil
	}
	return nil, nil
}

// askedBy records the newest identity that has asked.
func (t *tx) askedBy(ctx context.Context, was RestoredNode, r RestoredRenewal) error {
	epoch, since := max(was.AskedEpoch, r.Epoch), was.AskedSince
	if was.AskedKey != r.PublicKeyDigest || r.Since.After(since) {
		since = r.Since
	}
	_, err := t.ExecContext(ctx,
		`INSERT INTO restored_nodes (node_id, known, epoch, asked_epoch, asked_since, asked_key, asked_at, asked_from) VALUES ($1, FALSE, 0, $2, $3, $4, $5, $6)
		ON CONFLICT (node_id) DO UPDATE SET asked_epoch = excluded.asked_epoch, asked_since = excluded.asked_since, asked_key = excluded.asked_key, asked_at = excluded.asked_at, asked_from = excluded.asked_from`,
		r.NodeID, epoch, sqlkit.Micros(since), r.PublicKeyDigest, sqlkit.Micros(t.now), r.Remote)
	return err
}

// accepts reports whether an operator has accepted this identity. Only an operator can replace an
// accepted identity.
func (r RestoredNode) accepts(asked RestoredRenewal) bool {
	return r.AcceptedBy != "" && r.AcceptKey == asked.PublicKeyDigest
}

// letIn reports whether the request has the key that was let in: an answer may have been lost.
func (r RestoredNode) letIn(asked RestoredRenewal) bool {
	return !r.LetInAt.IsZero() && r.LetInKey == asked.PublicKeyDigest
}

// shutRestored keeps a node shut that an operator or a run has ended since the restore:
// certificates issued after the backup are not on record, so they cannot be denied one by one.
func (t *tx) shutRestored(ctx context.Context, nodeID string) error {
	_, err := t.ExecContext(ctx, `UPDATE restored_nodes SET shut_at = $1, accepted_by = '', accepted_key = '' WHERE node_id = $2`,
		sqlkit.Micros(t.now), nodeID)
	return err
}

func (t *tx) twoIdentities(ctx context.Context, was RestoredNode, r RestoredRenewal) error {
	return t.noteDifference(ctx, Difference{
		Subject: "node/" + was.NodeID, Code: "two_identities",
		Text: fmt.Sprintf("two identities have asked to renew: one of epoch %d from %s, and one of epoch %d from %s (if the machine may have been copied, give it a new identity)", was.AskedEpoch, was.AskedFrom, r.Epoch, r.Remote),
	})
}

// readmit makes an identity the node's: its epoch counts, and all earlier certificates are denied.
// A node that enrolled again since the backup serves nobody before a person has looked, since its
// history is not on record.
func (t *tx) readmit(ctx context.Context, n broker.Node, old RestoredNode, r RestoredRenewal) (broker.Node, error) {
	if err := t.denyWhere(ctx, "restored_superseded", `node_id = $3 AND (epoch < $4 OR key_digest <> $5)`, n.ID, r.Epoch,
		r.PublicKeyDigest); err != nil {
		return n, err
	}
	if err := t.addCert(ctx, n.ID, r.Epoch, r.PublicKeyDigest, r.Cert); err != nil {
		return n, err
	}
	since := r.Since.UTC()
	if was, err := t.keyKnown(ctx, n.ID, r.PublicKeyDigest); err != nil || was {
		since = n.IdentitySince
		if err != nil {
			return n, err
		}
	}
	if _, err := t.ExecContext(ctx,
		`UPDATE nodes SET epoch = $1, contacted_epoch = $1, cert_not_after = $2, identity_since = $3, updated_at = $4 WHERE id = $5`,
		r.Epoch, sqlkit.Micros(r.Cert.NotAfter), sqlkit.Micros(since), sqlkit.Micros(t.now), n.ID); err != nil {
		return n, err
	}
	if !old.letIn(r) { // a repeated answer keeps the time: contacts in between count
		if _, err := t.ExecContext(ctx, `UPDATE nodes SET last_contact_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), n.ID); err != nil {
			return n, err
		}
		if _, err := t.ExecContext(ctx, `UPDATE restored_nodes SET let_in_at = $1, let_in_key = $2, compared_at = 0 WHERE node_id = $3`,
			sqlkit.Micros(t.now), r.PublicKeyDigest, n.ID); err != nil {
			return n, err
		}
	}
	caught := r.Epoch > n.Epoch
	n.Epoch, n.CertNotAfter, n.IdentitySince = r.Epoch, r.Cert.NotAfter.UTC(), since
	if caught {
		if err := t.caughtUp(ctx, &n); err != nil {
			return n, err
		}
	}
	if err := t.agentUpdated(ctx, n, r.Report.AgentVersion); err != nil {
		return n, err
	}
	if err := t.saveReport(ctx, &n, r.Report); err != nil {
		return n, err
	}
	if r.Said > r.TrustVersion {
		return n,
			t.noteDifference(ctx, Difference{
				Subject: "node/" + n.ID, Code: "trust_newer",
				Text: fmt.Sprintf("the node has trust bundle %d, and the newest in the backup is %d: keys were changed after the backup",
					r.Said, r.TrustVersion),
			})
	}
	return n, t.confirmTrust(ctx, &n, r.TrustVersion)
}

// agentUpdated notes that a node runs another agent than in the backup. The broker does not put the
// old agent back: the node's report counts.
func (t *tx) agentUpdated(ctx context.Context, n broker.Node, is string) error {
	if is == n.AgentVersion {
		return nil
	}
	text := fmt.Sprintf("the node's agent is %s, and was %s in the backup: the agent was updated or rolled back after the backup", is,
		n.AgentVersion)
	var published bool
	if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM agent_releases WHERE version = $1)`, is).Scan(&published); err != nil {
		return err
	}
	if !published {
		text += "; that release is not published here"
	}
	return t.noteDifference(ctx, Difference{Subject: "node/" + n.ID, Code: "agent_updated", Text: text})
}

func (t *tx) keyKnown(ctx context.Context, nodeID, key string) (bool, error) {
	var known int
	err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM certificates WHERE node_id = $1 AND key_digest = $2 AND restored`, nodeID,
		key).Scan(&known)
	return known > 0, err
}

// caughtUp applies the effects of an epoch that the backup does not have.
func (t *tx) caughtUp(ctx context.Context, n *broker.Node) error {
	if err := t.failOpen(ctx, nodeActor(n.ID), n.ID, n.Epoch, "node_reenrolled"); err != nil {
		return err
	}
	if err := t.noteDifference(ctx, Difference{
		Subject: "node/" + n.ID, Code: "enrolled_again",
		Text: fmt.Sprintf("the node enrolled again after the backup, and is at epoch %d; who used it since, and whether it was cleaned, is not on record", n.Epoch),
	}); err != nil {
		return err
	}
	for _, by := range []broker.Owner{broker.OwnerReconciler, broker.OwnerTurnover, broker.OwnerOperator} {
		if broker.Transition(*n, broker.Quarantined, by) != nil {
			continue
		}
		moved, err := t.transition(ctx, broker.Actor{Name: "system"}, n.ID,
			Change{
				From: n.Status, To: broker.Quarantined, By: by,
				Reason: "restored_from_backup: the node enrolled again after the backup",
			})
		if err == nil {
			*n = moved
		}
		return err
	}
	return nil
}

// nextEpoch returns an epoch above all epochs that the database has seen of the node, and above all
// epochs that may have been given out before the restore.
func (t *tx) nextEpoch(ctx context.Context, n broker.Node) (int64, error) {
	var seen int64
	err := t.QueryRowContext(ctx, `SELECT asked_epoch FROM restored_nodes WHERE node_id = $1`, n.ID).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) { // the node was made since, or there was no restore
		return n.Epoch + 1, nil
	}
	if err != nil {
		return 0, err
	}
	last, err := lastRestore(ctx, t)
	return max(n.Epoch, seen, last.RestoredAt.Unix()) + 1, err
}
