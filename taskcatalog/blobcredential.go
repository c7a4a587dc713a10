package taskcatalog

import "time"

// BlobCredential is the value of a credential of type s3_read, gcs_read or hf_token, as JSON. It permits
// steps artifact.pull_blob of one task to read their files for a short time.
type BlobCredential struct {
	// URLs has the address of each file, by the argument source of the step that pulls it. The address is
	// complete: it has what signs it, and asks for no header but Host. Its scheme is https, it has no user
	// and no fragment, and its path ends with the object, or with the file that the source names.
	// A file that is missing here is at the well-known address of its source. S3 has none.
	URLs map[string]string `json:"urls,omitempty"`
	// Authorization is the value of the header of that name. It goes to the host of the address, and to
	// no host that the address redirects to. Empty: the address is enough.
	Authorization string `json:"authorization,omitempty"`
	// ExpiresAt ends the credential. The node asks for a fresh one shortly before, and when a source
	// refuses this one. Zero: only the source says when it ends.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Bounds of a BlobCredential, in bytes.
const (
	MaxBlobURL           = 8 << 10
	MaxBlobAuthorization = 8 << 10
)
