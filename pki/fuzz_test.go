package pki_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"reflect"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
)

// Whatever arrives, only signed payloads are returned.
func FuzzEnvelope(f *testing.F) {
	v := makeVectors(f)
	v.refusals(f) // their envelopes are among the seeds, and some signatures hold
	keys := func(id string) (crypto.PublicKey, bool) {
		for _, name := range []string{"task", "node"} {
			if s := v.keys[name]; s.ID == id {
				return s.Key.Public(), true
			}
		}
		return nil, false
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		env, err := pki.ParseEnvelope(raw)
		if err != nil {
			return
		}
		for _, kind := range []string{pki.PayloadTask, pki.PayloadEvidence} {
			payload, id, err := env.Verify(kind, keys)
			if err == nil && !v.signed[kind+string(payload)] {
				t.Errorf("key %s never signed %q as %s", id, payload, kind)
			}
		}
	})
}

// Whatever arrives, trust goes from version 1 to the version 2 that the trust key signed, or stays.
// A parsed bundle is encoded to the same bytes.
func FuzzTrustBundle(f *testing.F) {
	v := makeVectors(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if b, err := v.first.Accept(raw, v.now); err == nil && !reflect.DeepEqual(b, v.first) && !reflect.DeepEqual(b, v.second) {
			t.Errorf("took a bundle that was never signed: %+v", b)
		}
		b, err := pki.DecodeBundle(raw)
		if err != nil {
			return
		}
		once := must[[]byte](t)(pki.EncodeBundle(b))
		twice := must[[]byte](t)(pki.EncodeBundle(must[*pki.TrustBundle](t)(pki.DecodeBundle(once))))
		if !bytes.Equal(once, twice) {
			t.Errorf("written as %s, then as %s", once, twice)
		}
	})
}

// Whatever a request asks for, a node gets a certificate for its own name or none.
func FuzzCSR(f *testing.F) {
	v := makeVectors(f)
	ca := must[*pki.CA](f)(pki.NewCA([]*x509.Certificate{v.issuing, v.root}, v.keys["issuing"].Key))
	roots := v.first.Roots(v.now)
	f.Fuzz(func(t *testing.T, raw []byte) {
		csr, err := pki.ParseCSR(raw)
		if err != nil {
			return
		}
		cert, err := ca.IssueNode(csr, v.identity, v.now, time.Hour)
		if err != nil {
			return
		}
		peer, err := pki.VerifyNodePeer(stateOf(cert, v.issuing), roots, v.now, nobody)
		if err != nil || peer.NodeIdentity != v.identity {
			t.Errorf("issued a certificate for %+v: %v", peer, err)
		}
	})
}
