package records

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/pki"
)

// keyPath is the path of the secret from which tokens are derived.
const keyPath = "broker/enrol-token-key"

// spare is how much longer than required a token is valid. During this time the same token is
// rendered again, also for a machine that may have received it already.
const spare = 15 * time.Minute

// token returns the token for the node's machine, valid at least until expires: the open token, if
// this package derived it and it lasts that long, or the next. After a long delay by a freeze or an
// outage, the node gets the next token.
func (n *Nodes) token(ctx context.Context, nodeID string, expires time.Time) (pki.EnrollToken, error) {
	key, err := n.tokenKey(ctx)
	if err != nil {
		return "", err
	}
	known, err := n.DB.EnrollTokens(ctx, nodeID)
	if err != nil {
		return "", err
	}
	same, err := tokenOf(key, nodeID, known.Issued)
	if err != nil || pki.TokenMatches(known.OpenHash, same.Reveal()) && !known.ExpiresAt.Before(expires) {
		return same, err
	}
	next, err := tokenOf(key, nodeID, known.Issued+1)
	if err != nil {
		return "", err
	}
	return next, n.DB.IssueToken(ctx, broker.System, nodeID, pki.HashToken(next.Reveal()), expires.Add(spare), "for the first-boot bundle")
}

// tokenOf derives a node's token with the given number.
func tokenOf(key []byte, nodeID string, number int) (pki.EnrollToken, error) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler enrol token\x00" + nodeID + "\x00" + strconv.Itoa(number)))
	return pki.NewEnrollToken(bytes.NewReader(mac.Sum(nil)))
}

// tokenKey reads the key, and creates it where there is none. Concurrent brokers get one and the
// same key: a token under another key could never be derived again.
func (n *Nodes) tokenKey(ctx context.Context) ([]byte, error) {
	return secrets.EnsureKey(ctx, n.Secrets, keyPath, "cannot derive enrolment tokens")
}
