package taskcatalog

import "time"

var nodeRotateIdentity = define[RotateIdentityParams, RotateIdentityResult](Type{
	Name: "node.rotate_identity", Version: 1,
	Summary: "make a new key and get a certificate for it; the old certificate is denied at the first request with the new one",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 10 * time.Minute,
	Example: `{}`,
})

// RotateIdentityParams has no fields. The node generates the key and requests the certificate with
// the task's id.
type RotateIdentityParams struct{}

// RotateIdentityResult names the certificate that the node uses from now on. The new key signs the
// evidence.
type RotateIdentityResult struct {
	Serial    string    `json:"serial" jsonschema:"maxLength=64"`
	KeySHA256 string    `json:"key_sha256" jsonschema:"maxLength=64"` // hex, of the public key's SPKI DER
	NotAfter  time.Time `json:"not_after"`
}
