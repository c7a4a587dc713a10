package pki

import (
	"crypto"

	"github.com/hostler/hostler/taskcatalog"
)

// SignEvidence returns the envelope of a node's evidence, signed by the node's key.
func SignEvidence(ev taskcatalog.Evidence, key crypto.Signer) ([]byte, error) {
	payload, err := taskcatalog.Encode(ev)
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot sign evidence of task %s: %v", quote(ev.TaskID), err)
	}
	signer, err := NewSigner(key)
	if err != nil {
		return nil, err
	}
	return Sign(PayloadEvidence, payload, signer)
}

// VerifyEvidence returns the evidence that the holder of nodeKey signed. The caller, who sent the
// task, must check the task, nonce, node and epoch, and that the key may speak for this turnover.
// All text in the evidence is the node's claim and untrusted. Codes: those of ParseEnvelope and
// Envelope.Verify.
func VerifyEvidence(raw []byte, nodeKey crypto.PublicKey) (*taskcatalog.Evidence, error) {
	env, err := ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	want, err := KeyID(nodeKey)
	if err != nil {
		return nil, err
	}
	payload, _, err := env.Verify(PayloadEvidence, func(id string) (crypto.PublicKey, bool) { return nodeKey, id == want })
	if err != nil {
		return nil, err
	}
	ev := new(taskcatalog.Evidence)
	if err := taskcatalog.DecodeStrict(payload, ev); err != nil {
		return nil, refuse(CodeMalformed, "cannot read evidence: %v", err)
	}
	return ev, nil
}

// ResignEvidence returns an envelope with the payload of raw, signed by key. A node uses
// ResignEvidence after a change of its key. ResignEvidence verifies no signature: raw must be the
// caller's own evidence. Codes: those of ParseEnvelope, wrong_payload_type.
func ResignEvidence(raw []byte, key crypto.Signer) ([]byte, error) {
	env, err := ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	if env.payloadType != PayloadEvidence {
		return nil, refuse(CodeWrongPayloadType, "cannot sign evidence: it is a %s", quote(env.payloadType))
	}
	signer, err := NewSigner(key)
	if err != nil {
		return nil, err
	}
	return Sign(PayloadEvidence, env.payload, signer)
}
