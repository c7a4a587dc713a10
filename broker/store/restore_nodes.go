package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// MAAS's statement about the machine of a node in a restored database.
const (
	MachineSame  = "same"  // deployed, and marked for this node by a run that had ended in the backup
	MachineNewer = "newer" // deployed, and marked for this node by a run that had not ended in the backup, or is not in it
	MachineOther = "other" // anything else: MAAS does not vouch for the node
)

// RestoredNode is a node's state since the last restore.
type RestoredNode struct {
	NodeID     string
	Known      bool  // in the backup
	Epoch      int64 // in the backup
	AskedEpoch int64 // the newest identity that has asked to renew
	AskedSince time.Time
	AskedKey   string
	AskedAt    time.Time
	AskedFrom  string
	Machine    string // MachineSame …; empty: MAAS was not read yet, or the node has no machine in MAAS
	MachineAt  time.Time
	MachineIs  string
	AcceptedBy string
	AcceptKey  string
	LetInAt    time.Time
	LetInKey   string
	EnrolledAt time.Time
	ComparedAt time.Time
	ShutAt     time.Time // since then no certificate from before the restore renews, unless an operator accepts it
}

const restoredNodeColumns = `node_id, known, epoch, asked_epoch, asked_since, asked_key, asked_at, asked_from, machine, machine_at, machine_is, accepted_by, accepted_key, let_in_at, let_in_key, enrolled_at, compared_at, shut_at`

func scanRestoredNode(row sqlkit.Row) (r RestoredNode, err error) {
	err = row.Scan(&r.NodeID, &r.Known, &r.Epoch, &r.AskedEpoch, sqlkit.ScanMicros(&r.AskedSince), &r.AskedKey,
		sqlkit.ScanMicros(&r.AskedAt), &r.AskedFrom, &r.Machine, sqlkit.ScanMicros(&r.MachineAt), &r.MachineIs,
		&r.AcceptedBy, &r.AcceptKey, sqlkit.ScanMicros(&r.LetInAt), &r.LetInKey, sqlkit.ScanMicros(&r.EnrolledAt),
		sqlkit.ScanMicros(&r.ComparedAt), sqlkit.ScanMicros(&r.ShutAt))
	return r, err
}

// RestoredNodes returns the nodes of the backup, and other nodes that have asked to renew since.
func (db *DB) RestoredNodes(ctx context.Context) ([]RestoredNode, error) {
	return sqlkit.Collect(ctx, db.reader(), scanRestoredNode, `SELECT `+restoredNodeColumns+` FROM restored_nodes ORDER BY node_id`)
}

// In reports whether the node is a member again.
func (r RestoredNode) In() bool {
	return !r.EnrolledAt.IsZero() || !r.LetInAt.IsZero() && r.ShutAt.IsZero()
}

// Contested reports whether a key other than the key let in has asked since.
func (r RestoredNode) Contested() bool {
	return r.EnrolledAt.IsZero() && !r.LetInAt.IsZero() && r.AskedKey != r.LetInKey
}

// State names the node's progress in a word or two.
func (r RestoredNode) State() string {
	switch {
	case !r.EnrolledAt.IsZero():
		return "enrolled again"
	case !r.ShutAt.IsZero():
		return "shut out"
	case r.Contested():
		return "let in, contested"
	case !r.LetInAt.IsZero():
		return "let in"
	case !r.Known:
		return "unknown"
	case r.AcceptedBy != "":
		return "accepted"
	case r.AskedAt.IsZero():
		return "not heard"
	case r.Machine == MachineOther || r.Machine == MachineNewer && r.AskedEpoch <= r.Epoch:
		return "refused"
	}
	return "undecided"
}

// keyPrefix is the number of hex digits of a key's digest that identify the key.
const keyPrefix = 16

// Asked returns the beginning of the digest of the key that asked last; empty: no key has asked.
func (r RestoredNode) Asked() string {
	digest := strings.TrimPrefix(r.AskedKey, "sha256:")
	return digest[:min(keyPrefix, len(digest))]
}

// AcceptRestored records an operator's decision to accept the identity that asked last as the node.
// key is the beginning of the digest of the identity's key. Codes: restored_not_asked,
// restored_other_key, restored_enrolled.
func (db *DB) AcceptRestored(ctx context.Context, actor broker.Actor, nodeID, key, reason string) (r RestoredNode, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		r, err = scanRestoredNode(t.QueryRowContext(ctx, `SELECT `+restoredNodeColumns+` FROM restored_nodes WHERE node_id = $1`+
			t.ForUpdate(), nodeID))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return broker.Errorf(broker.NotFound, "restored_not_asked",
				"cannot accept %q: no such node was in the backup (see hostler-broker restore --list)", nodeID)
		case err != nil:
			return err
		case r.AskedKey == "" || !r.Known:
			return broker.Errorf(broker.Refused, "restored_not_asked",
				"cannot accept node %s: it is not in the backup, or it has not asked to renew yet (wait until it has)", nodeID)
		case !r.EnrolledAt.IsZero():
			return broker.Errorf(broker.Refused, "restored_enrolled",
				"cannot accept an earlier key for node %s: the node has enrolled again since the restore, and its new identity is valid",
				nodeID)
		case len(key) < keyPrefix || !strings.HasPrefix(strings.TrimPrefix(r.AskedKey, "sha256:"), key):
			return broker.Errorf(broker.Refused, "restored_other_key",
				"cannot accept key %q for node %s: the key that asked last is %s, from %s (see hostler-broker restore --list)",
				taskcatalog.Clean(key, 64), nodeID, r.Asked(), r.AskedFrom)
		}
		if r.LetInKey != r.AskedKey {
			if err := t.putOut(ctx, &r, r.AskedKey); err != nil {
				return err
			}
		}
		r.AcceptedBy, r.AcceptKey = actor.Name, r.AskedKey
		if _, err := t.ExecContext(ctx,
			`UPDATE restored_nodes SET accepted_by = $1, accepted_key = asked_key, shut_at = 0 WHERE node_id = $2`, actor.Name,
			nodeID); err != nil {
			return err
		}
		e := entry(actor, "node.restored_accept", nodeID)
		e.Reason, e.After = reason, small("key", r.AskedKey, "epoch", r.AskedEpoch, "from", r.AskedFrom)
		return t.audit(ctx, e)
	})
	return r, err
}

// putOut withdraws everything given to an identity that an operator replaces by another identity.
func (t *tx) putOut(ctx context.Context, was *RestoredNode, key string) error {
	if err := t.denyWhere(ctx, "restored_superseded", `node_id = $3 AND key_digest <> $4`, was.NodeID, key); err != nil {
		return err
	}
	was.AcceptedBy, was.AcceptKey, was.LetInAt, was.LetInKey, was.ComparedAt = "", "", time.Time{}, "", time.Time{}
	_, err := t.ExecContext(ctx,
		`UPDATE restored_nodes SET accepted_by = '', accepted_key = '', let_in_at = 0, let_in_key = '', compared_at = 0 WHERE node_id = $1`,
		was.NodeID)
	return err
}

// SaveCompared records that a node's ledger was compared, and the differences found.
func (db *DB) SaveCompared(ctx context.Context, nodeID string, found []Difference) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, d := range found {
			if err := t.noteDifference(ctx, d); err != nil {
				return err
			}
		}
		_, err := t.ExecContext(ctx, `UPDATE restored_nodes SET compared_at = $1 WHERE node_id = $2`, sqlkit.Micros(t.now), nodeID)
		return err
	})
}

// MachineWord is MAAS's statement about the machine of a node.
type MachineWord struct {
	NodeID, Word, Is string
}

// SaveMachineWords stores MAAS's statements about nodes. Unchanged statements are not written.
func (db *DB) SaveMachineWords(ctx context.Context, words []MachineWord) error {
	kept, err := db.RestoredNodes(ctx)
	if err != nil {
		return err
	}
	said := make(map[MachineWord]bool, len(kept))
	for _, r := range kept {
		said[MachineWord{NodeID: r.NodeID, Word: r.Machine, Is: r.MachineIs}] = true
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w MachineWord) bool { return said[w] })
	if len(words) == 0 {
		return nil
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		for _, w := range words {
			if _, err := t.ExecContext(ctx, `UPDATE restored_nodes SET machine = $1, machine_is = $2, machine_at = $3 WHERE node_id = $4`,
				w.Word, w.Is, sqlkit.Micros(t.now), w.NodeID); err != nil {
				return err
			}
		}
		return nil
	})
}
