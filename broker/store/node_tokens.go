package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// MaxExtensions is how often the expiry of an enrol token may be moved.
const MaxExtensions = 2

// enrollToken is a token's row. The token itself is not stored.
type enrollToken struct {
	Hash, NodeID                          string
	ExpiresAt, UsedAt, ConsumedAt, VoidAt time.Time
	Extended                              int
	KeyDigest, Serial                     string
}

const tokenColumns = `hash, node_id, expires_at, used_at, consumed_at, void_at, extended, key_digest, serial`

func scanToken(row sqlkit.Row) (enrollToken, error) {
	var k enrollToken
	err := row.Scan(&k.Hash, &k.NodeID, sqlkit.ScanMicros(&k.ExpiresAt), sqlkit.ScanMicros(&k.UsedAt), sqlkit.ScanMicros(&k.ConsumedAt),
		sqlkit.ScanMicros(&k.VoidAt), &k.Extended, &k.KeyDigest, &k.Serial)
	return k, err
}

func (t *tx) addToken(ctx context.Context, nodeID, hash string, expires time.Time) error {
	_, err := t.ExecContext(ctx, `INSERT INTO enroll_tokens (hash, node_id, created_at, expires_at) VALUES ($1, $2, $3, $4)`,
		hash, nodeID, sqlkit.Micros(t.now), sqlkit.Micros(expires))
	return err
}

// ExtendToken moves the expiry of the node's open token, at most MaxExtensions times, because a
// deployed node cannot learn a new token. The expiry never moves to an earlier time. Codes:
// node_not_found, node_deleted, token_none, token_extended_twice, token_not_longer.
func (db *DB) ExtendToken(ctx context.Context, actor broker.Actor, nodeID string, expires time.Time, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if n.Status == broker.Deleted {
			return nodeDeleted(n)
		}
		k, err := scanToken(t.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM enroll_tokens
			WHERE node_id = $1 AND consumed_at = 0 AND void_at = 0`, nodeID))
		if errors.Is(err, sql.ErrNoRows) {
			return broker.Errorf(broker.Refused, "token_none",
				"cannot extend the enrol token of node %s: it has no open token (issue a new one)", nodeID)
		} else if err != nil {
			return err
		}
		e := entry(actor, "token.extend", nodeID)
		if k.Extended >= MaxExtensions {
			return refuse(broker.Errorf(broker.Refused, "token_extended_twice",
				"cannot extend the enrol token of node %s: the token was already extended %d times (issue a new one)", nodeID,
				k.Extended), e)
		}
		if !expires.After(k.ExpiresAt) {
			return broker.Errorf(broker.Invalid, "token_not_longer",
				"cannot extend the enrol token of node %s: the token is already valid until %s", nodeID, k.ExpiresAt.Format(time.RFC3339))
		}
		if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET expires_at = $1, extended = extended + 1 WHERE hash = $2`,
			sqlkit.Micros(expires), k.Hash); err != nil {
			return err
		}
		e.Reason, e.Before, e.After = reason, small("expires_at", k.ExpiresAt), small("expires_at", expires.UTC(), "extended", k.Extended+1)
		return t.audit(ctx, e)
	})
}

// IssueToken gives a node a new enrol token, and voids its open token. Codes: node_not_found,
// node_deleted.
func (db *DB) IssueToken(ctx context.Context, actor broker.Actor, nodeID, tokenHash string, expires time.Time, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if n.Status == broker.Deleted {
			return nodeDeleted(n)
		}
		if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET void_at = $1 WHERE node_id = $2 AND consumed_at = 0 AND void_at = 0`,
			sqlkit.Micros(t.now), nodeID); err != nil {
			return err
		}
		if err := t.addToken(ctx, nodeID, tokenHash, expires); err != nil {
			return err
		}
		e := entry(actor, "token.issue", nodeID)
		e.Reason, e.After = reason, small("expires_at", expires.UTC())
		return t.audit(ctx, e)
	})
}

// VoidToken voids a node's open token. A missing token is no error. Code: node_not_found.
func (db *DB) VoidToken(ctx context.Context, actor broker.Actor, nodeID, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := node(ctx, t, nodeID, t.ForUpdate()); err != nil {
			return err
		}
		void, err := sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE enroll_tokens SET void_at = $1 WHERE node_id = $2 AND consumed_at = 0 AND void_at = 0`, sqlkit.Micros(t.now), nodeID))
		if err != nil || void == 0 {
			return err
		}
		e := entry(actor, "token.void", nodeID)
		e.Reason = reason
		return t.audit(ctx, e)
	})
}

func nodeDeleted(n broker.Node) *broker.Error {
	return broker.Errorf(broker.Refused, "node_deleted", "node %s (%s) is deleted (create a new node; ids are never reused)", n.ID,
		n.Hostname)
}
