package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// KeyUse is the purpose of a key in a trust bundle. Each key has one use.
type KeyUse string

// The uses, spelled as in the bundle.
const (
	UseTask      KeyUse = "task"
	UseTrust     KeyUse = "trust"
	UseStatement KeyUse = "statement"
	UseRelease   KeyUse = "release"
	UseRoot      KeyUse = "root" // a root certificate of the CA
)

// requiredUses must have a key in force in every bundle. A release key is required only if the
// previous bundle has a release key in force: see Accept.
var requiredUses = []KeyUse{UseTask, UseTrust, UseStatement, UseRoot}

const maxBundleKeys = 128

// BundleKey is one key with the time in which its signatures count.
type BundleKey struct {
	Use         KeyUse    `json:"use"`
	ID          string    `json:"id"`                    // KeyID; for a root its Fingerprint
	PublicKey   []byte    `json:"public_key,omitempty"`  // SPKI DER
	Certificate []byte    `json:"certificate,omitempty"` // DER, of a root only
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

// NewBundleKey returns the entry of a public key.
func NewBundleKey(use KeyUse, pub crypto.PublicKey, notBefore, notAfter time.Time) (BundleKey, error) {
	der, err := marshalPublic(pub)
	if err != nil {
		return BundleKey{}, err
	}
	id, err := KeyID(pub)
	if err != nil {
		return BundleKey{}, err
	}
	return BundleKey{Use: use, ID: id, PublicKey: der, NotBefore: notBefore.UTC(), NotAfter: notAfter.UTC()}, nil
}

// NewBundleRoot returns the entry of a root certificate, for its own validity.
func NewBundleRoot(root *x509.Certificate) BundleKey {
	return BundleKey{
		Use: UseRoot, ID: Fingerprint(root), Certificate: root.Raw, NotBefore: root.NotBefore.UTC(),
		NotAfter: root.NotAfter.UTC(),
	}
}

// InForce reports whether the key counts at a time, give or take the clock skew.
func (k *BundleKey) InForce(at time.Time) bool {
	return !at.Before(k.NotBefore.Add(-taskcatalog.ClockSkew)) && !at.After(k.NotAfter.Add(taskcatalog.ClockSkew))
}

// public returns the key of an entry with consistent parts: the id is derived from the key, and a
// root entry has a certificate.
func (k *BundleKey) public() (crypto.PublicKey, error) {
	switch k.Use {
	case UseRoot:
		cert, err := x509.ParseCertificate(k.Certificate)
		if err != nil || len(k.PublicKey) != 0 || !cert.IsCA || k.ID != Fingerprint(cert) || !bytes.Equal(cert.RawIssuer, cert.RawSubject) {
			return nil, refuse(CodeMalformed, "cannot use root %s in trust bundle: it is no root certificate with that fingerprint",
				quote(k.ID))
		}
		return cert.PublicKey, checkPublic(cert.PublicKey)
	case UseTask, UseTrust, UseStatement, UseRelease:
		pub, err := parsePublic(k.PublicKey)
		if err != nil {
			return nil, err
		}
		if id, err := KeyID(pub); err != nil || id != k.ID || len(k.Certificate) != 0 {
			return nil, refuse(CodeMalformed, "cannot use %s key %s in trust bundle: the id is not that of the key", k.Use, quote(k.ID))
		}
		return pub, nil
	}
	return nil, refuse(CodeMalformed, "cannot use trust bundle: no key has the use %s", quote(string(k.Use)))
}
