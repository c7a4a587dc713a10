package certificate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// The kinds of statements. The statement key signs audit heads as well: the kind is covered by
// the signature.
const (
	PredicateClean       = "https://hostler.dev/clean-certificate/v1"
	PredicateReceipt     = "https://hostler.dev/clean-receipt/v1"
	PredicateAttestation = "https://hostler.dev/part-attestation/v1"
)

const statementType = "https://in-toto.io/Statement/v1"

// statement is an in-toto v1 statement about one subject.
type statement[P any] struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     P         `json:"predicate"`
}

type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

type digest struct {
	SHA256 string `json:"sha256"`
}

// predicate is the content of a statement of one kind.
type predicate interface {
	kind() string
	// about names the subject and returns its digest.
	about() (name string, sha256Hex string, err error)
	issuedAt() time.Time
	// check refuses a contradictory statement.
	check() error
}

// sign writes, signs and checks a statement. p is tidy afterwards.
func sign[P predicate](p P, signer pki.Signer) ([]byte, error) {
	tidy(p)
	if err := p.check(); err != nil {
		return nil, err
	}
	payload, err := encode(p)
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

func encode[P predicate](p P) ([]byte, error) {
	name, sum, err := p.about()
	if err != nil {
		return nil, err
	}
	payload, err := taskcatalog.Encode(statement[P]{
		Type: statementType, PredicateType: p.kind(), Predicate: p,
		Subject: []subject{{Name: name, Digest: digest{SHA256: sum}}},
	})
	if err != nil {
		return nil, malformed("%v", err)
	}
	return payload, nil
}

// open reads an authentic payload and refuses any form but the output of sign.
func open[P predicate](payload []byte) (P, error) {
	var s statement[P]
	if err := taskcatalog.DecodeStrict(payload, &s); err != nil {
		return s.Predicate, malformed("%v", err)
	}
	if isNil(s.Predicate) {
		return s.Predicate, malformed("the statement has no predicate")
	}
	tidy(s.Predicate)
	again, err := encode(s.Predicate)
	if err != nil {
		return s.Predicate, err
	}
	if !bytes.Equal(again, payload) {
		return s.Predicate, refuse(pki.CodeNotCanonical, "cannot read certificate: the signed bytes are not in Hostler's canonical form")
	}
	return s.Predicate, nil
}

// kindOf is the kind of an authentic payload.
func kindOf(payload []byte) (string, error) {
	var head struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return "", malformed("the signed bytes are not a statement")
	}
	if head.Type != statementType {
		return "", refuse(CodeWrongStatement, "cannot read certificate: the signed bytes are a %q, not an in-toto statement of version 1",
			taskcatalog.Clean(head.Type, 200))
	}
	return head.PredicateType, nil
}

func hexSHA256(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
