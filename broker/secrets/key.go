package secrets

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/hostler/hostler/broker"
)

// EnsureKey returns the key of 32 bytes or more at path, and creates it where there is none.
// Concurrent brokers get one and the same key. The refusal of a secret that is no key begins with
// what cannot be done without it. Codes: secret_malformed, those of Keeper.Ensure.
func EnsureKey(ctx context.Context, k Keeper, path, cannot string) ([]byte, error) {
	made := make([]byte, sha256.Size)
	_, _ = rand.Read(made) // never fails
	text, err := k.Ensure(ctx, path, []byte(hex.EncodeToString(made)))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) < sha256.Size {
		return nil, broker.Errorf(broker.Unavailable, "secret_malformed",
			"%s: secret %s is not a key (remove the secret, and the broker creates a new one)", cannot, path)
	}
	return key, nil
}
