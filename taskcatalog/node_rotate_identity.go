package taskcatalog

import "time"

var nodeRotateIdentity = define[RotateIdentityParams, RotateIdentityResult](Type{
	Name: "node.rotate_identity", Version: 1,
	Summary: "take a new key and a certificate for it; the old one is denied at the first request with the new",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 10 * time.Minute,
	Example: `{}`,
})

// RotateIdentityParams asks for nothing: the node makes the key, and the task's
// id is what it asks for the certificate with.
type RotateIdentityParams struct{}

// RotateIdentityResult names the certificate that the node shows from now on. Its
// evidence is signed by the new key.
type RotateIdentityResult struct {
	Serial    string    `json:"serial" jsonschema:"maxLength=64"`
	KeySHA256 string    `json:"key_sha256" jsonschema:"maxLength=64"` // hex, of the public key's SPKI DER
	NotAfter  time.Time `json:"not_after"`
}
