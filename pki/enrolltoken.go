package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
)

const enrollTokenPrefix = "hsn_"

// EnrollToken lets one machine enrol as one node, once. The token is a secret: printing, logging
// and encoding redact it. Only the hash of the token is stored.
type EnrollToken string

const redacted = "[enroll token]"

// NewEnrollToken returns a fresh token: "hsn_" and 256 random bits in base64url.
func NewEnrollToken(rand io.Reader) (EnrollToken, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(rand, b); err != nil {
		return "", fmt.Errorf("cannot make enroll token: %w", err)
	}
	return EnrollToken(enrollTokenPrefix + base64.RawURLEncoding.EncodeToString(b)), nil
}

// Reveal returns the token itself, for callers that send, write or hash it.
func (t EnrollToken) Reveal() string { return string(t) }

func (EnrollToken) String() string { return redacted }

// Format covers every verb; without it %d and %x would print the bytes.
func (EnrollToken) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText covers JSON and YAML. Do not make it the key of a map: encoding/json
// shows keys as they are.
func (EnrollToken) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// HashToken returns the stored form of a token: its hex SHA-256. A token has 256 random bits, so a
// slow hash would add nothing.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// TokenMatches reports, in constant time, whether hash is the hash of the presented token. An empty
// hash matches nothing.
func TokenMatches(hash, presented string) bool {
	return subtle.ConstantTimeCompare([]byte(hash), []byte(HashToken(presented))) == 1
}
