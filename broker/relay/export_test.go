package relay

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// tokenLife is the lifetime of a token that Mint makes.
const tokenLife = 30 * time.Second

// Mint makes a token that admits the session's node once, within half a minute, with the key of
// that digest. Only the hash of the token is stored. Codes: terminal_session_not_found,
// terminal_session_over.
func (r *Relay) Mint(ctx context.Context, id, keyDigest string) (string, error) {
	token := rand.Text()
	return token, r.c.DB.SetTerminalToken(ctx, id, store.TerminalToken{Hash: pki.HashToken(token), Expires: r.c.DB.Now().Add(tokenLife), KeyDigest: keyDigest})
}
