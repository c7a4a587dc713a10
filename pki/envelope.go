package pki

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns "sha256:" and the hex SHA-256 of raw, as evidence names the
// task envelope it is about.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
