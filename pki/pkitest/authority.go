// Package pkitest makes complete throw-away authorities for tests: a root with its issuing CA, a
// broker's certificate for loopback, one signer per use, and the first trust bundle. The
// authorities are real: package pki with throw-away keys.
package pkitest

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
)

// Authority holds everything that a broker holds. Tests change fields as needed.
type Authority struct {
	Now       time.Time // when everything was made
	RootCA    *pki.CA
	Issuing   *pki.CA
	Server    tls.Certificate // for localhost, 127.0.0.1 and ::1, chain up to the root
	Task      pki.Signer
	Trust     pki.Signer
	Statement pki.Signer
	Release   pki.Signer
	Bundle    *pki.TrustBundle // version 1
	RawBundle []byte           // its envelope, signed by Trust
}

// Node is an enrolled node.
type Node struct {
	pki.NodeIdentity
	Cert tls.Certificate // its key, and its chain up to the root
}

// Signer returns the node's key.
func (n Node) Signer() crypto.Signer { return n.Cert.PrivateKey.(crypto.Signer) }

// Life is the validity of everything that New makes, except node certificates.
const Life = 365 * 24 * time.Hour

// New makes an authority at the present time.
func New(t testing.TB) *Authority { return NewAt(t, time.Now()) }

// NewAt makes an authority at a time of the test's choice.
func NewAt(t testing.TB, now time.Time) *Authority {
	t.Helper()
	now = now.UTC().Truncate(time.Second)
	a := &Authority{Now: now, Task: NewSigner(t), Trust: NewSigner(t), Statement: NewSigner(t), Release: NewSigner(t)}

	rootKey, issuingKey := NewSigner(t).Key, NewSigner(t).Key
	root := must(pki.NewRoot(rand.Reader, rootKey, "test root", now, Life))(t)
	a.RootCA = must(pki.NewCA([]*x509.Certificate{root}, rootKey))(t)
	issuing := must(pki.NewIssuing(rand.Reader, a.RootCA, issuingKey.Public(), "test issuing CA", now, Life))(t)
	a.Issuing = must(pki.NewCA([]*x509.Certificate{issuing, root}, issuingKey))(t)
	a.Server = a.NewServer(t, []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback})

	a.Bundle = &pki.TrustBundle{Version: 1, IssuedAt: now, Keys: []pki.BundleKey{
		a.BundleKey(t, pki.UseTask, a.Task),
		a.BundleKey(t, pki.UseTrust, a.Trust),
		a.BundleKey(t, pki.UseStatement, a.Statement),
		a.BundleKey(t, pki.UseRelease, a.Release),
		pki.NewBundleRoot(root),
	}}
	a.RawBundle = must(pki.SignBundle(*a.Bundle, a.Trust))(t)
	return a
}

// Root returns the root certificate.
func (a *Authority) Root() *x509.Certificate { return a.RootCA.Cert }

// Roots returns a pool of the root certificate.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Root())
	return pool
}

// Pin returns the value for --ca-sha256.
func (a *Authority) Pin() string { return pki.Fingerprint(a.Root()) }

// BundleKey returns the entry of a signer, in force from Backdate before Now.
func (a *Authority) BundleKey(t testing.TB, use pki.KeyUse, s pki.Signer) pki.BundleKey {
	t.Helper()
	return must(pki.NewBundleKey(use, s.Key.Public(), a.Now.Add(-pki.Backdate), a.Now.Add(Life)))(t)
}

// NewServer makes a server certificate.
func (a *Authority) NewServer(t testing.TB, names []string, ips []net.IP) tls.Certificate {
	t.Helper()
	key := NewSigner(t).Key
	leaf := must(a.Issuing.IssueServer(key.Public(), names, ips, a.Now, Life))(t)
	return tls.Certificate{Certificate: a.chain(leaf), PrivateKey: key, Leaf: leaf}
}

// NewNode enrols a fresh node at epoch 1, for 24 hours from Now.
func (a *Authority) NewNode(t testing.TB) Node {
	t.Helper()
	return a.Enroll(t, pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: 1}, 24*time.Hour)
}

// Enroll makes a key and its certificate for a node.
func (a *Authority) Enroll(t testing.TB, id pki.NodeIdentity, life time.Duration) Node {
	t.Helper()
	key := NewSigner(t).Key
	csr := must(pki.ParseCSR(must(pki.NewCSR(key))(t)))(t)
	leaf := must(a.Issuing.IssueNode(csr, id, a.Now, life))(t)
	return Node{NodeIdentity: id, Cert: tls.Certificate{Certificate: a.chain(leaf), PrivateKey: key, Leaf: leaf}}
}

func (a *Authority) chain(leaf *x509.Certificate) [][]byte {
	return [][]byte{leaf.Raw, a.Issuing.Cert.Raw, a.Root().Raw}
}

// NewSigner makes an Ed25519 key under its KeyID.
func NewSigner(t testing.TB) pki.Signer {
	t.Helper()
	return must(pki.NewSigner(must(pki.GenerateKey(pki.Ed25519))(t)))(t)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("cannot make test authority: %v", err)
		}
		return v
	}
}
