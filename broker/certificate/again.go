package certificate

import (
	"encoding/base64"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Unverified reads a clean certificate from the issuer's own records, and checks neither signature nor
// proofs. A file from anywhere else is read by Verify.
func Unverified(file []byte) (*Clean, error) {
	if len(file) > pki.MaxStatement {
		return nil, refuse(pki.CodeTooLarge, "cannot read certificate: %d bytes, at most %d", len(file), pki.MaxStatement)
	}
	var env struct {
		Payload string `json:"payload"`
	}
	if err := json.Unmarshal(file, &env); err != nil {
		return nil, malformed("the file is no envelope")
	}
	payload, err := base64.StdEncoding.DecodeString(env.Payload)
	if err != nil {
		return nil, malformed("its payload is not in base64")
	}
	if kind, err := kindOf(payload); err != nil || kind != PredicateClean {
		return nil, refuse(CodeWrongStatement, "cannot read certificate: the file is no clean certificate")
	}
	var s statement[*Clean]
	if err := taskcatalog.DecodeStrict(payload, &s); err != nil || s.Predicate == nil {
		return nil, malformed("the statement cannot be read: %v", err)
	}
	return s.Predicate, nil
}

// Lacks judges the content by the certificate's Policy and Downgrades as they are now, and returns what the
// signed verdict does not list. A shortfall of the signed verdict stays one, whatever the policy is.
func (c *Clean) Lacks() (more []Remark) {
	had := map[[2]string]bool{}
	for _, r := range c.Verdict.Shortfalls {
		had[[2]string{string(r.Code), r.Subject}] = true
	}
	for _, r := range Judge(c).Shortfalls {
		if !had[[2]string{string(r.Code), r.Subject}] {
			more = append(more, r)
		}
	}
	return more
}
