package audit

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// predicateHead is the in-toto predicate type of a head.
const predicateHead = "https://hostler.dev/audit-head/v1"

// statement is the signed form of a head: an in-toto v1 statement whose subject is the seal.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	Position int64     `json:"position"`
	At       time.Time `json:"at"`
}

const inTotoStatement = "https://in-toto.io/Statement/v1"

// SignHead signs the end of the chain.
func SignHead(tip store.AuditTip, at time.Time, signer pki.Signer) (store.AuditHead, error) {
	payload, err := taskcatalog.Encode(statement{
		Type: inTotoStatement, PredicateType: predicateHead,
		Subject:   []subject{{Name: "audit_logs", Digest: map[string]string{"sha256": tip.Seal}}},
		Predicate: predicate{Position: tip.Position, At: at.UTC()},
	})
	if err != nil {
		return store.AuditHead{}, err
	}
	envelope, err := pki.Sign(pki.PayloadInToto, payload, signer)
	return store.AuditHead{AuditTip: tip, At: at, Envelope: envelope}, err
}

// VerifyHead returns the head that a statement key of the bundle has signed. Codes: those of
// TrustBundle.VerifyStatement, and malformed.
func VerifyHead(envelope []byte, bundle *pki.TrustBundle) (Head, error) {
	env, err := pki.ParseEnvelope(envelope)
	if err != nil {
		return Head{}, err
	}
	var s statement
	_, key, err := bundle.VerifyStatement(env, func(payload []byte) (time.Time, error) {
		if err := json.Unmarshal(payload, &s); err != nil || s.Type != inTotoStatement || s.PredicateType != predicateHead ||
			len(s.Subject) != 1 {
			return time.Time{}, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot read audit head: the statement is not an audit head")
		}
		return s.Predicate.At, nil
	})
	if err != nil {
		return Head{}, err
	}
	return Head{Position: s.Predicate.Position, Seal: s.Subject[0].Digest["sha256"], At: s.Predicate.At, KeyID: key}, nil
}
