package trust

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

// serverLife is the validity of a server certificate. The broker makes a new certificate after two
// thirds of it.
const serverLife = 7 * 24 * time.Hour

// serverCertificate is the presented certificate.
type serverCertificate struct {
	cert   *tls.Certificate
	issuer string // fingerprint of the issuing CA
}

// due reports whether a new certificate is needed: after two thirds of the life of the present
// certificate, or if it is not valid yet. The comparison uses the wall clock: the monotonic clock
// stands still while a machine is suspended.
func (s serverCertificate) due(now time.Time) bool {
	from, life := s.cert.Leaf.NotBefore, s.cert.Leaf.NotAfter.Sub(s.cert.Leaf.NotBefore)
	now = now.Round(0)
	return now.Before(from) || !now.Before(from.Add(life*2/3))
}

// IssueNode issues a node certificate from the newest issuing CA and returns the certificate with
// its chain up to the root. Codes: those of pki.CA.IssueNode; key_mismatch if this replica lacks
// the newest CA's key.
func (a *Authority) IssueNode(
	csr *x509.CertificateRequest, id pki.NodeIdentity, now time.Time, life time.Duration,
) (leaf *x509.Certificate, chain []*x509.Certificate, err error) {
	k, err := a.issuing(newest)
	if err != nil {
		return nil, nil, err
	}
	ca, err := a.ring.ca(k)
	if err != nil {
		return nil, nil, err
	}
	leaf, err = ca.IssueNode(csr, id, now, life)
	if err != nil {
		return nil, nil, err
	}
	return leaf, append([]*x509.Certificate{leaf}, ca.Chain...), nil
}

// ByNewestCA reports whether the newest issuing CA signed a node's certificate. Other certificates
// should be renewed.
func (a *Authority) ByNewestCA(cert *x509.Certificate) bool {
	k, err := a.issuing(newest)
	if err != nil {
		return true // this replica cannot issue a better certificate
	}
	chain, err := k.certs()
	return err != nil || bytes.Equal(cert.RawIssuer, chain[0].RawSubject)
}

// ServerCertificate implements tls.Config.GetCertificate. It returns the broker's certificate for
// the advertised and the loopback names, with its chain up to the root, and makes a new certificate
// in time.
func (a *Authority) ServerCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := a.o.Now()
	k, err := a.presented()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.server; s.cert != nil && s.issuer == k.ID && !s.due(now) {
		return s.cert, nil
	}
	cert, err := a.issueServer(k, now)
	if err != nil {
		return nil, err
	}
	a.server = serverCertificate{cert: cert, issuer: k.ID}
	return cert, nil
}

func (a *Authority) issueServer(k ringKey, now time.Time) (*tls.Certificate, error) {
	ca, err := a.ring.ca(k)
	if err != nil {
		return nil, err
	}
	key, err := pki.GenerateKey(pki.P256)
	if err != nil {
		return nil, err
	}
	names, ips := []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, host := range a.o.Advertise {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, host)
		}
	}
	leaf, err := ca.IssueServer(key.Public(), names, ips, now, serverLife)
	if err != nil {
		return nil, err
	}
	out := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, c := range ca.Chain {
		out.Certificate = append(out.Certificate, c.Raw)
	}
	return out, nil
}

// RootSHA256 returns the fingerprint of the root of the broker's chain: the value for --ca-sha256.
func (a *Authority) RootSHA256() string {
	return a.presentedRoot().ID
}

// RootsPEM returns the roots in force, for operators' clients.
func (a *Authority) RootsPEM() []byte {
	var out []byte
	for _, k := range live(a.current.Load().bundle, pki.UseRoot, a.o.Now()) {
		if cert, err := x509.ParseCertificate(k.Certificate); err == nil {
			out = append(out, pki.MarshalCerts(cert)...)
		}
	}
	return out
}

// RootIDs returns the fingerprints of the roots in force, oldest first.
func (a *Authority) RootIDs() []string {
	var ids []string
	for _, k := range live(a.current.Load().bundle, pki.UseRoot, a.o.Now()) {
		ids = append(ids, k.ID)
	}
	return ids
}

// presentedRoot returns the oldest root in force. During a rotation every node knows the oldest
// root.
func (a *Authority) presentedRoot() pki.BundleKey {
	roots := live(a.current.Load().bundle, pki.UseRoot, a.o.Now())
	if len(roots) == 0 {
		return pki.BundleKey{}
	}
	return roots[0]
}

func (a *Authority) presented() (ringKey, error) { return a.issuing(oldest) }

type age int

const (
	oldest age = iota
	newest
)

// issuing returns the issuing CA under the oldest or the newest root in force.
func (a *Authority) issuing(which age) (ringKey, error) {
	roots := live(a.current.Load().bundle, pki.UseRoot, a.o.Now())
	if which == newest {
		slices.Reverse(roots)
	}
	if len(roots) > 0 {
		for _, k := range a.ring.keys(UseIssuing) {
			chain, err := k.certs()
			if err != nil {
				return ringKey{}, err
			}
			if pki.Fingerprint(chain[len(chain)-1]) == roots[0].ID {
				return k, nil
			}
		}
	}
	return ringKey{}, broker.Errorf(broker.Unavailable, "key_mismatch",
		"cannot issue certificates: this broker has no issuing CA under a root of the trust bundle in force (give every replica the same keys)")
}
