package records

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// keyPath is where the key is kept from which tokens are worked out.
const keyPath = "broker/enrol-token-key"

// spare is how much longer a token is good for than it has to be: so long it is
// rendered again and again, also for a machine that may have it already.
const spare = 15 * time.Minute

// token is the one that the node's machine may use, good until expires at least: the
// open one again, if it is ours and lasts that long, or the next. What was kept from
// being deployed for long, by a freeze or an outage, has the next.
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

// tokenOf works out the number-th token of a node.
func tokenOf(key []byte, nodeID string, number int) (pki.EnrollToken, error) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler enrol token\x00" + nodeID + "\x00" + strconv.Itoa(number)))
	return pki.NewEnrollToken(bytes.NewReader(mac.Sum(nil)))
}

// tokenKey reads the key, and makes it where there is none: one, however many brokers
// need it at once, since a token of another could never be worked out again.
func (n *Nodes) tokenKey(ctx context.Context) ([]byte, error) {
	made := make([]byte, sha256.Size)
	_, _ = rand.Read(made) // never fails
	text, err := n.Secrets.Ensure(ctx, keyPath, []byte(hex.EncodeToString(made)))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) < sha256.Size {
		return nil, broker.Errorf(broker.Unavailable, "secret_malformed", "cannot work out enrol tokens: secret %s is no key (remove it, and a new one is made)", keyPath)
	}
	return key, nil
}
