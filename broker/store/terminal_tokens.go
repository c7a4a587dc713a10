package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// TerminalToken is the stored part of a token minted for a task: its hash, its expiry, and the
// digest of the key whose holder alone may show it.
type TerminalToken struct {
	Hash      string
	Expires   time.Time
	KeyDigest string
}

// SetTerminalToken stores a minted token, replacing the earlier minted token. The token of the last
// Welcome stays valid until this token is used. Codes: terminal_session_not_found,
// terminal_session_over.
func (db *DB) SetTerminalToken(ctx context.Context, id string, k TerminalToken) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		had, err := terminal(ctx, t, id, t.ForUpdate())
		if err != nil {
			return err
		}
		if had.Status.Over() {
			return terminalOver(had)
		}
		kept, err := terminalTokensOf(ctx, t, id)
		if err != nil {
			return err
		}
		kept.supersede(kept.minted, kept.key)
		_, err = t.ExecContext(ctx,
			`UPDATE terminal_sessions SET token_hash = $2, token_expires_at = $3, token_key_digest = $4, superseded = $5 WHERE id = $1`,
			id, k.Hash, sqlkit.Micros(k.Expires), k.KeyDigest, sqlkit.JSON(kept.superseded))
		return err
	})
}

// TerminalCaller is the node that shows a token, according to its certificate, and the relay to
// which the token is shown.
type TerminalCaller struct {
	NodeID    string
	Epoch     int64
	KeyDigest string
	Replica   string
}

// terminalTokens are the hashes of a session's tokens.
type terminalTokens struct {
	minted  string
	expires time.Time
	key     string // required to show the minted token
	next    string // carried by the last Welcome
	used    string // answered by the last Welcome
	spent   string // used before that
	holder  string // the key that got the last Welcome
	// superseded are the last few tokens that were replaced before their use.
	superseded []supersededToken
}

type supersededToken struct {
	Hash string `json:"hash"`
	Key  string `json:"key"` // the key of its holder
}

// mostSuperseded bounds the remembered superseded tokens. They are minted seconds apart; their
// holder forgets them within half a minute, or with the connection that brings a new token.
const mostSuperseded = 8

func terminalTokensOf(ctx context.Context, t *tx, id string) (k terminalTokens, err error) {
	err = t.QueryRowContext(ctx,
		`SELECT token_hash, token_expires_at, token_key_digest, next_token_hash, used_token_hash, spent_token_hash, token_holder, superseded
		FROM terminal_sessions WHERE id = $1`, id).
		Scan(&k.minted, sqlkit.ScanMicros(&k.expires), &k.key, &k.next, &k.used, &k.spent, &k.holder, sqlkit.ScanJSON(&k.superseded))
	return k, err
}

func (k *terminalTokens) supersede(hash, key string) {
	if hash == "" {
		return
	}
	k.superseded = append(k.superseded, supersededToken{hash, key})
	k.superseded = k.superseded[max(0, len(k.superseded)-mostSuperseded):]
}

// holderOf returns the key of a superseded token's holder; empty: not a superseded token.
func (k *terminalTokens) holderOf(hash string) string {
	for _, s := range k.superseded {
		if sameHash(s.Hash, hash) {
			return s.Key
		}
	}
	return ""
}

// UseTerminalToken lets a node in with a token whose hash is stored: a minted token, or the token
// of the node's last Welcome. next replaces that token. If the last Welcome was lost, the token
// answered by it is valid again, for the same key, until its successor is used. A refusal is
// audited as an attack, since a node of ours has no reason for it. Exception: a token superseded
// before its use (terminal_token_superseded). Codes: terminal_session_not_found,
// terminal_session_over, terminal_session_elsewhere, terminal_wrong_node, terminal_wrong_epoch,
// terminal_wrong_key, terminal_token_used, terminal_token_unknown, terminal_token_superseded,
// terminal_token_expired.
func (db *DB) UseTerminalToken(ctx context.Context, id string, by TerminalCaller, hash, next string) (s broker.TerminalSession, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{
			Actor: nodeActor(by.NodeID).Name, Action: "terminal.attack",
			Subject: "terminal/" + taskcatalog.Clean(id, 60),
		}
		s, err = terminal(ctx, t, id, t.ForUpdate())
		if refused := (*broker.Error)(nil); errors.As(err, &refused) {
			return refuse(refused, e)
		} else if err != nil {
			return err
		}
		k, err := terminalTokensOf(ctx, t, id)
		if err != nil {
			return err
		}
		no := func(code, format string, args ...any) error {
			return refuse(broker.Errorf(broker.Forbidden, code, "cannot join terminal session %s: %s", id, fmt.Sprintf(format, args...)), e)
		}
		minted, following, again := sameHash(k.minted, hash), sameHash(k.next, hash), sameHash(k.used, hash)
		holder, superseded := k.holder, false
		if !minted && !following && !again {
			if was := k.holderOf(hash); was != "" {
				holder, superseded = was, true
			}
		}
		may := sameHash(holder, by.KeyDigest)
		if (following || superseded) && !may { // the holder's key was replaced since
			if may, err = t.replacedKey(ctx, by, holder); err != nil {
				return err
			}
		}
		switch {
		case by.NodeID != s.NodeID:
			return no("terminal_wrong_node", "the session does not belong to node %s", by.NodeID)
		case by.Epoch != s.NodeEpoch:
			return no("terminal_wrong_epoch", "the session belongs to epoch %d of the node, and the certificate to epoch %d", s.NodeEpoch,
				by.Epoch)
		case s.Status.Over():
			return terminalOver(s) // a node that was not told is no attacker
		case by.Replica != s.Replica:
			return terminalElsewhere(s) // nor is a node that knows of no other relay
		case sameHash(k.spent, hash), again && !may:
			return no("terminal_token_used", "the token was already used")
		case superseded && may: // the node was not told of the newer token
			return broker.Errorf(broker.Unavailable, "terminal_token_superseded",
				"cannot join terminal session %s: a newer token has replaced this one (use the newer token)", id)
		case !minted && !following && !again:
			return no("terminal_token_unknown", "the token is not one of this session")
		case minted && !sameHash(k.key, by.KeyDigest), following && !may:
			return no("terminal_wrong_key", "the token is for another key")
		case minted && !t.now.Before(k.expires):
			return no("terminal_token_expired", "the token expired at %s", k.expires.Format(time.RFC3339))
		}
		if !again {
			k.spent, k.used = k.used, hash
		}
		if minted {
			k.supersede(k.next, k.holder)
			k.minted = ""
		}
		_, err = t.ExecContext(ctx,
			`UPDATE terminal_sessions SET token_hash = $2, next_token_hash = $3, used_token_hash = $4, spent_token_hash = $5, token_holder = $6, superseded = $7 WHERE id = $1`,
			id, k.minted, next, k.used, k.spent, by.KeyDigest, sqlkit.JSON(k.superseded))
		return err
	})
	return s, err
}

// replacedKey reports whether the node's key was certified in this epoch after the key of the
// token's holder, as by a rotation or by a renewal with a new key.
func (t *tx) replacedKey(ctx context.Context, by TerminalCaller, holder string) (is bool, err error) {
	return is,
		t.QueryRowContext(ctx,
			`SELECT EXISTS (SELECT 1 FROM certificates WHERE node_id = $1 AND epoch = $2 AND key_digest = $3 AND denied_at = 0 AND issued_at >
		COALESCE((SELECT MAX(issued_at) FROM certificates WHERE node_id = $1 AND epoch = $2 AND key_digest = $4), 0))`,
			by.NodeID, by.Epoch, by.KeyDigest, holder).Scan(&is)
}

// sameHash compares in constant time; an empty stored hash matches nothing.
func sameHash(kept, shown string) bool {
	return kept != "" && subtle.ConstantTimeCompare([]byte(kept), []byte(shown)) == 1
}
