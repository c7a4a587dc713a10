package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// File returns a signature of a file at a source (KIND:PATH) by one signer of each list, among those that are
// given with the file. The file itself is not read: its digest is what must be signed. Codes:
// signature_no_signer, signature_missing, signature_malformed, signature_untrusted, artifact_signer_invalid.
func (j *Judge) File(lists [][]broker.ArtifactSigner, source, digest, given string) ([]taskcatalog.ArtifactSignature, error) {
	signers, err := trustAll(lists, source, digest)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(given) == "" {
		return nil, broker.Errorf(broker.Refused, CodeMissing,
			"no signature is given with %s@%s (sign the file: cosign sign-blob --bundle FILE, and give the bundle as the step's argument signature)",
			source, digest)
	}
	found, err := read(given)
	if err != nil {
		return nil, broker.Errorf(broker.Refused, CodeMalformed, "cannot read what is given as the signature of %s@%s: %v", source, digest, err)
	}
	return j.judge(signers, source, digest, found)
}

// read reads what is given with a file: bundles one after another, or the text of one signature alone. It verifies
// nothing, and its errors quote nothing.
func read(given string) (found []Found, err error) {
	if len(given) > taskcatalog.MaxStepSignature {
		return nil, errors.New("it has more than 64 KiB")
	}
	given = strings.TrimSpace(given)
	if !strings.HasPrefix(given, "{") {
		if _, err := base64.StdEncoding.DecodeString(given); err != nil {
			return nil, errors.New("it is neither a bundle (JSON) nor a signature (base64)")
		}
		return []Found{{Form: taskcatalog.SignatureGiven, Annotations: map[string]string{release.AnnotationSignature: given}}}, nil
	}
	d := json.NewDecoder(strings.NewReader(given))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil || raw[0] != '{':
			return nil, errors.New("it is not one bundle after another, each of them a JSON object")
		case len(found) == maxFound:
			return nil, errors.New("it has more than 16 bundles")
		}
		found = append(found, fileBundle(raw))
	}
}

// earlier is a bundle of cosign 2 (--bundle without --new-bundle-format).
type earlier struct {
	MediaType   string          `json:"mediaType"`
	Signature   string          `json:"base64Signature"`
	Certificate string          `json:"cert"` // PEM in base64; of a key's owner, the public key
	Log         json.RawMessage `json:"rekorBundle"`
}

// fileBundle reads one bundle of either form.
func fileBundle(raw []byte) Found {
	f := Found{Form: taskcatalog.SignatureGiven, Bundle: raw}
	var e earlier
	if err := json.Unmarshal(raw, &e); err != nil || e.MediaType != "" || e.Signature == "" {
		return f
	}
	f.Bundle, f.Annotations = nil, map[string]string{release.AnnotationSignature: e.Signature}
	pem, err := base64.StdEncoding.DecodeString(e.Certificate)
	if err != nil {
		return Found{Form: taskcatalog.SignatureGiven}
	}
	if !strings.Contains(string(pem), "-----BEGIN PUBLIC KEY-----") { // the signer's record has the key
		f.Annotations[annotationCertificate] = string(pem)
	}
	if log := string(e.Log); log != "" && log != "null" {
		f.Annotations[annotationLog] = log
	}
	return f
}
