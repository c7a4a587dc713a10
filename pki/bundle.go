package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// TrustBundle lists the keys that a node trusts, with the use and validity of each key. The bundle
// includes the trust key itself. Only a trust key in force can replace the bundle.
type TrustBundle struct {
	Version  int64       `json:"version"` // a counter, from 1
	IssuedAt time.Time   `json:"issued_at"`
	Keys     []BundleKey `json:"keys"`
}

// SignBundle returns the envelope of a bundle, signed by each of the trust keys. During a rotation
// the trust key in force and the next trust key both sign.
func SignBundle(b TrustBundle, trust ...Signer) ([]byte, error) {
	payload, err := EncodeBundle(&b)
	if err != nil {
		return nil, err
	}
	return Sign(PayloadTrustBundle, payload, trust...)
}

// EncodeBundle returns a bundle without signatures. The encoding is the payload of SignBundle, the
// form in which a node stores an accepted bundle, and the output of "trust show -o json".
func EncodeBundle(b *TrustBundle) ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	raw, err := taskcatalog.Encode(b)
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot write trust bundle: %v", err)
	}
	return raw, nil
}

// DecodeBundle reads the output of EncodeBundle. DecodeBundle checks form, not origin: raw must
// come from a place that only the owner of the trust can write.
func DecodeBundle(raw []byte) (*TrustBundle, error) {
	if len(raw) > MaxEnvelope {
		return nil, refuse(CodeTooLarge, "cannot read trust bundle: %d bytes, at most %d", len(raw), MaxEnvelope)
	}
	b := new(TrustBundle)
	if err := taskcatalog.DecodeStrict(raw, b); err != nil {
		return nil, refuse(CodeMalformed, "cannot read trust bundle: %v", err)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

// FirstBundle accepts the bundle of the enrolment answer. The bundle is trusted because the TLS
// channel was pinned. FirstBundle is the only function that reads a payload before its signature
// holds. The bundle must still be signed by a trust key that the bundle names, and each required
// use must have a key in force.
func FirstBundle(raw []byte, now time.Time) (*TrustBundle, error) {
	env, err := ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	if env.payloadType != PayloadTrustBundle {
		return nil, refuse(CodeWrongPayloadType, "cannot take trust bundle: it is a %s", quote(env.payloadType))
	}
	b, err := DecodeBundle(env.payload)
	if err != nil {
		return nil, err
	}
	if err := b.verifyBundle(env, now); err != nil {
		return nil, err
	}
	if err := b.checkUses(requiredUses, now); err != nil {
		return nil, err
	}
	return b, nil
}

// Accept returns the bundle that replaces b. The new bundle must be signed by a trust key of b in
// force, have a higher version, have a key in force for each use, and keep all statement keys of b,
// because old statements must stay verifiable. A repeated delivery of b is accepted and returns b.
// On an error b stays in force. Codes in addition to those of envelopes: trust_key_unknown,
// key_not_in_force, trust_version_not_newer, trust_use_without_key, trust_statement_key_dropped,
// trust_key_two_uses.
func (b *TrustBundle) Accept(raw []byte, now time.Time) (*TrustBundle, error) {
	env, err := ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	// A bundle delivered again may be signed by a key that the bundle itself retired.
	if own, err := EncodeBundle(b); err == nil && env.payloadType == PayloadTrustBundle && bytes.Equal(own, env.payload) {
		return b, nil
	}
	if err := b.verifyBundle(env, now); err != nil {
		return nil, err
	}
	next, err := DecodeBundle(env.payload)
	if err != nil {
		return nil, err
	}
	if next.Version <= b.Version {
		return nil, refuse(CodeTrustVersionNotNewer, "cannot take trust bundle: version %d is not above version %d, which is in force",
			next.Version, b.Version)
	}
	// An optional use, such as release, may stay without a key but may not lose its last key in
	// force. A key that has expired blocks no other change.
	uses := slices.Clone(requiredUses)
	for _, k := range b.Keys {
		if k.InForce(now) {
			uses = append(uses, k.Use)
		}
		if k.Use == UseStatement && next.find(UseStatement, k.ID) == nil {
			return nil,
				refuse(CodeTrustStatementKeyDropped,
					"cannot take trust bundle version %d: it lacks statement key %s (keep it with its validity)", next.Version, k.ID)
		}
	}
	if err := next.checkUses(uses, now); err != nil {
		return nil, err
	}
	return next, nil
}

// Key returns a key that is in force for a use at a time. For a statement, pass the time at which
// the statement was made.
func (b *TrustBundle) Key(use KeyUse, id string, at time.Time) (crypto.PublicKey, bool) {
	pub, err := b.lookup(use, at)(id)
	return pub, err == nil
}

// ReleaseKeys returns the release keys in force, by id. Package release verifies releases with
// them.
func (b *TrustBundle) ReleaseKeys(at time.Time) release.Keys {
	keys := release.Keys{}
	for _, k := range b.Keys {
		if pub, ok := b.Key(k.Use, k.ID, at); ok && k.Use == UseRelease {
			keys[k.ID] = pub
		}
	}
	return keys
}

// VerifyTask returns the task in an envelope once the signature of a task key in force holds.
// Codes: wrong_payload_type, unknown_key, key_not_in_force, bad_signature; malformed for a payload
// that is not a task.
func (b *TrustBundle) VerifyTask(env *Envelope, now time.Time) (*taskcatalog.Task, error) {
	payload, _, err := env.verify(PayloadTask, b.lookup(UseTask, now))
	if err != nil {
		return nil, err
	}
	task := new(taskcatalog.Task)
	if err := taskcatalog.DecodeStrict(payload, task); err != nil {
		return nil, refuse(CodeMalformed, "cannot read task: %v", err)
	}
	return task, nil
}

// VerifyStatement returns the payload of an in-toto statement and the id of its signing key. The
// signature must hold, and the statement key must have been in force when the statement was made.
// madeAt reads that time from the payload; the payload is authentic when madeAt is called.
func (b *TrustBundle) VerifyStatement(
	env *Envelope, madeAt func(payload []byte) (time.Time, error),
) (payload []byte, keyID string, err error) {
	payload, id, err := env.verify(PayloadInToto, func(id string) (crypto.PublicKey, error) {
		if k := b.find(UseStatement, id); k != nil {
			return k.public()
		}
		return nil, unknownKey(UseStatement, id, b.Version)
	})
	if err != nil {
		return nil, "", err
	}
	at, err := madeAt(payload)
	if err != nil {
		return nil, "", err
	}
	if _, err := b.lookup(UseStatement, at)(id); err != nil {
		return nil, "", err
	}
	return payload, id, nil
}

// Roots returns the root certificates in force.
func (b *TrustBundle) Roots(now time.Time) *x509.CertPool {
	pool := x509.NewCertPool()
	for i := range b.Keys {
		if k := &b.Keys[i]; k.Use == UseRoot && k.InForce(now) {
			if cert, err := x509.ParseCertificate(k.Certificate); err == nil {
				pool.AddCert(cert)
			}
		}
	}
	return pool
}

func (b *TrustBundle) verifyBundle(env *Envelope, now time.Time) error {
	_, _, err := env.verify(PayloadTrustBundle, b.lookup(UseTrust, now))
	if taskcatalog.CodeOf(err, "") == CodeUnknownKey {
		return refuse(CodeTrustKeyUnknown, "cannot take trust bundle: none of its signatures is by a trust key of version %d", b.Version)
	}
	return err
}

func (b *TrustBundle) lookup(use KeyUse, at time.Time) func(id string) (crypto.PublicKey, error) {
	return func(id string) (crypto.PublicKey, error) {
		k := b.find(use, id)
		if k == nil {
			return nil, unknownKey(use, id, b.Version)
		}
		if !k.InForce(at) {
			return nil, refuse(CodeKeyNotInForce, "cannot use %s key %s: it is in force from %s to %s, not at %s", use, id,
				stamp(k.NotBefore), stamp(k.NotAfter), stamp(at))
		}
		return k.public()
	}
}

func unknownKey(use KeyUse, id string, version int64) *Error {
	return refuse(CodeUnknownKey, "cannot verify envelope: key %s is no %s key of trust bundle version %d", quote(id), use, version)
}

func (b *TrustBundle) find(use KeyUse, id string) *BundleKey {
	for i := range b.Keys {
		if k := &b.Keys[i]; k.Use == use && k.ID == id {
			return k
		}
	}
	return nil
}
