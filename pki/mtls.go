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
	Expired bool // past its end: good for a late renewal and for nothing else
}

// ServerConfig returns the TLS of a broker's listener: TLS 1.3 only, asking for a
// client certificate. Whether the peer will do is decided by verify alone, which
// sees every connection, resumed ones too (those skip VerifyPeerCertificate). A
// peer without a certificate has none in the state: enrolment and packages need
// none. clientRoots only tells clients which certificate to choose. It panics
// without verify, as such a server would let in everyone.
func ServerConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), clientRoots *x509.CertPool, verify func(tls.ConnectionState) error) *tls.Config {
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

// VerifyNodePeer returns the node that a connection belongs to. A certificate that
// ran out comes back with Expired set, and it is for the caller to let it renew
// and nothing else. Codes: certificate_required, certificate_unknown_authority,
// certificate_wrong_usage, certificate_not_yet_valid, certificate_invalid,
// node_identity_invalid, certificate_denied.
func VerifyNodePeer(cs tls.ConnectionState, roots *x509.CertPool, now time.Time, deny func(serial string) bool) (*Peer, error) {
	if len(cs.PeerCertificates) == 0 {
		return nil, refuse(CodeCertificateRequired, "cannot accept connection: it came without a client certificate")
	}
	cert := cs.PeerCertificates[0]
	at := now
	if now.After(cert.NotAfter) {
		at = cert.NotAfter // was the chain good while it lasted?
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
		return nil, refuse(CodeCertificateDenied, "cannot accept connection: certificate %s of node %s is denied (enrol the node again)", peer.Serial, id.NodeID)
	}
	return peer, nil
}

// ClientConfig returns the TLS of a node, or of an operator where cert is nil:
// TLS 1.3 only, the broker's chain up to roots and its name checked at now.
func ClientConfig(roots *x509.CertPool, cert *tls.Certificate, now func() time.Time) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Time: now}
	if cert != nil {
		// Sent whatever roots the server names: in a rotation it may not name ours.
		sent := withoutRoot(cert)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return sent, nil }
	}
	return config
}

// withoutRoot leaves the root out of a chain: a broker believes its own, and
// would keep the copy of every node for as long as that is connected.
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

// PinnedConfig returns the TLS of the first contact, when all that is known of
// the broker is the hex SHA-256 of its root: the chain must hold a CA certificate
// with that fingerprint, and name, dates and use are checked against it as always.
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
			return refuse(CodePinMismatch, "cannot trust broker: none of the %d certificates it sent has the SHA-256 %s (compare --ca-sha256 with the broker's)", len(cs.PeerCertificates), quote(caSHA256))
		},
	}
}

// verifyLeaf checks a chain that a peer sent, leaf first, and that the leaf is for
// this use alone.
func verifyLeaf(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage, name string, at time.Time) error {
	leaf := chain[0]
	if len(chain) > maxChain {
		return refuse(CodeCertificateInvalid, "cannot accept certificate %s: it came in a chain of %d, at most %d", Serial(leaf), len(chain), maxChain)
	}
	if at.Before(leaf.NotBefore) {
		return refuse(CodeCertificateNotYetValid, "cannot accept certificate %s: it is valid from %s and the clock here says %s (compare both clocks)", Serial(leaf), stamp(leaf.NotBefore), stamp(at))
	}
	if at.After(leaf.NotAfter) {
		return refuse(CodeCertificateExpired, "cannot accept certificate %s: it was valid until %s and the clock here says %s (compare both clocks)", Serial(leaf), stamp(leaf.NotAfter), stamp(at))
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
	// Verify is content with a leaf that may do more, or anything.
	if leaf.IsCA || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{use}) || len(leaf.UnknownExtKeyUsage) != 0 {
		return refuse(CodeCertificateWrongUsage, "cannot accept certificate %s: it is for more than the one use", Serial(leaf))
	}
	return checkPublic(leaf.PublicKey)
}

// chainRefusal gives the reasons of x509 their codes.
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
