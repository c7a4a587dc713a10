package certificate

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/pki"
)

// maxTrustFile bounds a trust file, in bytes.
const maxTrustFile = 1 << 20

// ReadTrust reads the output of "hostler trust show -o json": version, issued_at and keys; other
// fields are ignored. ReadTrust trusts the file, so the file must not come with the certificate:
// it comes from the operator's own page, or was kept from before. Codes: too_large, malformed,
// trust_key_two_uses.
func ReadTrust(raw []byte) (*pki.TrustBundle, error) {
	if len(raw) > maxTrustFile {
		return nil, refuse(pki.CodeTooLarge, "cannot read trust file: %d bytes, at most %d", len(raw), maxTrustFile)
	}
	var file struct {
		Version  int64           `json:"version"`
		IssuedAt time.Time       `json:"issued_at"`
		Keys     []pki.BundleKey `json:"keys"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(raw), &file); err != nil {
		return nil, refuse(pki.CodeMalformed, "cannot read trust file: the file is not the output of hostler trust show -o json")
	}
	bundle := &pki.TrustBundle{Version: file.Version, IssuedAt: file.IssuedAt, Keys: file.Keys}
	if _, err := pki.EncodeBundle(bundle); err != nil { // EncodeBundle checks the bundle
		return nil, err
	}
	return bundle, nil
}
