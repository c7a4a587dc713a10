package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"net/url"
	"time"
)

// Backdate is the time by which certificates are valid before their issue, so that a node with a
// slow clock can use a certificate at once.
const Backdate = 10 * time.Minute

// CA is an authority that signs certificates: a root signs issuing certificates, and an issuing CA
// signs the certificates of nodes and brokers.
type CA struct {
	Cert   *x509.Certificate
	Chain  []*x509.Certificate // Cert first, the root last
	Signer crypto.Signer
	Rand   io.Reader // of serial numbers; nil is crypto/rand
}

// NewCA builds an authority from its chain, its own certificate first and the root last, and its
// key. CodeKeyMismatch: the key does not belong to the certificate. CodeCertificateInvalid: a
// certificate of the chain did not sign the previous one.
func NewCA(chain []*x509.Certificate, signer crypto.Signer) (*CA, error) {
	if len(chain) == 0 {
		return nil, refuse(CodeCertificateRequired, "cannot open CA: there is no certificate")
	}
	if !samePublic(chain[0].PublicKey, signer.Public()) {
		return nil, refuse(CodeKeyMismatch, "cannot open CA %s: the key is not that of its certificate", quote(chain[0].Subject.CommonName))
	}
	for i, cert := range chain {
		issuer := chain[min(i+1, len(chain)-1)] // the root signs itself
		if err := cert.CheckSignatureFrom(issuer); err != nil || !cert.IsCA {
			return nil, refuse(CodeCertificateInvalid, "cannot open CA: its chain breaks at %s", quote(cert.Subject.CommonName))
		}
	}
	return &CA{Cert: chain[0], Chain: chain, Signer: signer}, nil
}

// NewRoot returns a root certificate for key.
func NewRoot(rand io.Reader, key crypto.Signer, name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            1,
	}
	return sign(rand, template, template, key.Public(), key)
}

// NewIssuing returns the certificate of an issuing CA. An issuing CA may sign client and server
// leaves, and no further authority.
func NewIssuing(rand io.Reader, root *CA, pub crypto.PublicKey, name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	notAfter, err := root.lifeEnd(now, life)
	if err != nil {
		return nil, err
	}
	if samePublic(pub, root.Cert.PublicKey) {
		return nil, refuse(CodeKeyMismatch, "cannot sign issuing CA %s: it has the root's key (one use per key)", quote(name))
	}
	return sign(rand, &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, root.Cert, pub, root.Signer)
}

// IssueNode returns a node's certificate: clientAuth only, named by id, valid from ten minutes ago
// for life, and never longer than the CA itself. IssueNode verifies that the sender of the request
// holds the key, and uses nothing else of the request.
func (ca *CA) IssueNode(csr *x509.CertificateRequest, id NodeIdentity, now time.Time, life time.Duration) (*x509.Certificate, error) {
	if err := checkCSR(csr); err != nil {
		return nil, err
	}
	if !ValidNodeID(id.NodeID) || id.Epoch < 1 {
		return nil, refuse(CodeNodeIdentity, "cannot issue node certificate: no node is named %s at epoch %d", quote(id.NodeID), id.Epoch)
	}
	return ca.issue(csr.PublicKey, now, life, &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.NodeID},
		URIs:        []*url.URL{NodeURI(id.NodeID, id.Epoch)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// IssueServer returns a broker's certificate: serverAuth only, for these names
// and addresses, with the limits of IssueNode.
func (ca *CA) IssueServer(
	pub crypto.PublicKey, dnsNames []string, ips []net.IP, now time.Time, life time.Duration,
) (*x509.Certificate, error) {
	if err := checkPublic(pub); err != nil {
		return nil, err
	}
	if len(dnsNames)+len(ips) == 0 {
		return nil, refuse(CodeServerNameMissing, "cannot issue server certificate: it has neither a name nor an address")
	}
	return ca.issue(pub, now, life, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "hostler-broker"},
		DNSNames:    dnsNames,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// issue signs a leaf; the template leaf holds the fields that depend on the kind.
func (ca *CA) issue(pub crypto.PublicKey, now time.Time, life time.Duration, leaf *x509.Certificate) (*x509.Certificate, error) {
	notAfter, err := ca.lifeEnd(now, life)
	if err != nil {
		return nil, err
	}
	if samePublic(pub, ca.Cert.PublicKey) {
		return nil, refuse(CodeKeyMismatch, "cannot issue certificate: the key is the CA's own (one use per key)")
	}
	leaf.NotBefore, leaf.NotAfter = now.Add(-Backdate), notAfter
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.BasicConstraintsValid = true
	random := ca.Rand
	if random == nil {
		random = rand.Reader
	}
	return sign(random, leaf, ca.Cert, pub, ca.Signer)
}

// lifeEnd returns the end of a certificate signed now: after life, but not after the end of the
// issuer. No chain would verify after the issuer's end.
func (ca *CA) lifeEnd(now time.Time, life time.Duration) (time.Time, error) {
	if now.Before(ca.Cert.NotBefore) || !now.Before(ca.Cert.NotAfter) {
		return time.Time{},
			refuse(CodeIssuerNotInForce,
				"cannot sign certificate: CA %s is valid from %s to %s and the clock says %s (rotate the CA or set the clock)",
				quote(ca.Cert.Subject.CommonName), stamp(ca.Cert.NotBefore), stamp(ca.Cert.NotAfter), stamp(now))
	}
	if end := now.Add(life); end.Before(ca.Cert.NotAfter) {
		return end, nil
	}
	return ca.Cert.NotAfter, nil
}

func sign(rand io.Reader, template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	if err := checkPublic(pub); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand, template, parent, pub, key)
	if err != nil {
		return nil, refuse(CodeCertificateInvalid, "cannot sign certificate for %s: %v", quote(template.Subject.CommonName), err)
	}
	return x509.ParseCertificate(der)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
