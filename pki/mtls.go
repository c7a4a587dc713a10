package pki

import (
	"bytes"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// Peer is the node at the other end of a connection.
type Peer struct {
	NodeIdentity
	Cert    *x509.Certificate
	Serial  string
	Expired bool // the certificate has expired: accepted for a late renewal only
}

// ServerConfig returns the TLS configuration of a broker's listener: TLS 1.3 only, with a request
// for a client certificate. Only verify decides whether the peer is accepted. verify sees every
// connection, including resumed connections, which skip VerifyPeerCertificate. The state of a peer
// without a certificate has none: enrolment and packages need no certificate. clientRoots only
// tells clients which certificate to choose. ServerConfig panics if verify is nil, because such a
// server would admit everyone.
func ServerConfig(
	get func(*tls.ClientHelloInfo) (*tls.Certificate, error), clientRoots *x509.CertPool, verify func(tls.ConnectionState) error,
) *tls.Config {
	if verify == nil {
		panic("pki: ServerConfig without a check of the peer")
	}
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		GetCertificate:   get,
		ClientAuth:       tls.RequestClientCert, // an expired certificate must get as far as the renew route
		ClientCAs:        clientRoots,
		VerifyConnection: verify,
	}
}

// VerifyNodePeer returns the node that a connection belongs to. An expired certificate is returned
// with Expired set; the caller must permit such a node to renew and nothing else. Codes:
// certificate_required, certificate_unknown_authority, certificate_wrong_usage,
// certificate_not_yet_valid, certificate_invalid, node_identity_invalid, certificate_denied.
func VerifyNodePeer(cs tls.ConnectionState, roots *x509.CertPool, now time.Time, deny func(serial string) bool) (*Peer, error) {
	if len(cs.PeerCertificates) == 0 {
		return nil, refuse(CodeCertificateRequired, "cannot accept connection: it came without a client certificate")
	}
	cert := cs.PeerCertificates[0]
	at := now
	if now.After(cert.NotAfter) {
		at = cert.NotAfter // was the chain valid before the leaf expired?
	}
	if err := verifyLeaf(cs.PeerCertificates, roots, x509.ExtKeyUsageClientAuth, "", at); err != nil {
		return nil, err
	}
	id, err := NodeIdentityOf(cert)
	if err != nil {
		return nil, err
	}
	peer := &Peer{NodeIdentity: id, Cert: cert, Serial: Serial(cert), Expired: now.After(cert.NotAfter)}
	if deny(peer.Serial) {
		return nil, refuse(CodeCertificateDenied, "cannot accept connection: certificate %s of node %s is denied (enrol the node again)",
			peer.Serial, id.NodeID)
	}
	return peer, nil
}

// ClientConfig returns the TLS configuration of a node, or of an operator if cert is nil: TLS 1.3
// only, with the broker's chain up to roots and the broker's name checked at now.
func ClientConfig(roots *x509.CertPool, cert *tls.Certificate, now func() time.Time) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Time: now}
	if cert != nil {
		// The certificate is sent whatever roots the server names: in a rotation the server may not
		// name ours.
		sent := withoutRoot(cert)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return sent, nil }
	}
	return config
}

// withoutRoot removes the root from a chain. A broker has its own root, and would hold every
// connected node's copy in memory.
func withoutRoot(cert *tls.Certificate) *tls.Certificate {
	last := len(cert.Certificate) - 1
	if last < 1 {
		return cert
	}
	root, err := x509.ParseCertificate(cert.Certificate[last])
	if err != nil || !bytes.Equal(root.RawIssuer, root.RawSubject) {
		return cert
	}
	sent := *cert
	sent.Certificate = cert.Certificate[:last]
	return &sent
}

// PinnedConfig returns the TLS configuration of the first contact, when only the hex SHA-256 of the
// broker's root is known. The chain must contain a CA certificate with that fingerprint; name,
// dates and usage are verified against that CA as usual.
func PinnedConfig(caSHA256, serverName string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         serverName,
		Time:               now,
		InsecureSkipVerify: true, // replaced by the check below, which is stricter
		VerifyConnection: func(cs tls.ConnectionState) error {
			for _, cert := range cs.PeerCertificates {
				if cert.IsCA && subtle.ConstantTimeCompare([]byte(Fingerprint(cert)), []byte(caSHA256)) == 1 {
					roots := x509.NewCertPool()
					roots.AddCert(cert)
					if serverName == "" {
						return refuse(CodeServerNameMissing, "cannot trust broker: it is not said which name it must have")
					}
					return verifyLeaf(cs.PeerCertificates, roots, x509.ExtKeyUsageServerAuth, serverName, now())
				}
			}
			return refuse(CodePinMismatch,
				"cannot trust broker: none of the %d certificates it sent has the SHA-256 %s (compare --ca-sha256 with the broker's)",
				len(cs.PeerCertificates), quote(caSHA256))
		},
	}
}

// verifyLeaf verifies a peer's chain, leaf first, and that the leaf has this use alone.
func verifyLeaf(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage, name string, at time.Time) error {
	leaf := chain[0]
	if len(chain) > maxChain {
		return refuse(CodeCertificateInvalid, "cannot accept certificate %s: it came in a chain of %d, at most %d", Serial(leaf),
			len(chain), maxChain)
	}
	if at.Before(leaf.NotBefore) {
		return refuse(CodeCertificateNotYetValid,
			"cannot accept certificate %s: it is valid from %s and the clock here says %s (compare both clocks)", Serial(leaf),
			stamp(leaf.NotBefore), stamp(at))
	}
	if at.After(leaf.NotAfter) {
		return refuse(CodeCertificateExpired,
			"cannot accept certificate %s: it was valid until %s and the clock here says %s (compare both clocks)", Serial(leaf),
			stamp(leaf.NotAfter), stamp(at))
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: at, DNSName: name,
		KeyUsages: []x509.ExtKeyUsage{use},
	})
	if err != nil {
		return chainRefusal(leaf, err)
	}
	// Verify accepts a leaf with additional usages, or with any usage.
	if leaf.IsCA || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{use}) || len(leaf.UnknownExtKeyUsage) != 0 {
		return refuse(CodeCertificateWrongUsage, "cannot accept certificate %s: it is for more than the one use", Serial(leaf))
	}
	return checkPublic(leaf.PublicKey)
}

// chainRefusal maps the reasons of x509 to codes.
func chainRefusal(leaf *x509.Certificate, err error) *Error {
	code := CodeCertificateInvalid
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		code = CodeCertificateUnknownCA
	} else if _, ok := errors.AsType[x509.HostnameError](err); ok {
		code = CodeServerNameMismatch
	} else if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.IncompatibleUsage {
		code = CodeCertificateWrongUsage
	}
	return refuse(code, "cannot accept certificate %s: %v", Serial(leaf), err)
}
