package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Report is the node's report about itself at enrolment and renewal.
type Report struct {
	AgentVersion string
	TaskTypes    []string
	Capabilities map[string]string
	Facts        *taskcatalog.Facts
	Agent        *taskcatalog.AgentBuild
	Hostname     string
}

// pending is the content of enroll.json: the key file made for a token.
type pending struct {
	TokenHash string `json:"token_sha256"`
	KeyFile   string `json:"key"`
}

func (s *State) pending() (*pending, error) {
	raw, err := s.readFile(pendingFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, stateError("cannot read %s: %v", pendingFile, err)
	}
	p := new(pending)
	if err := decodeState(pendingFile, raw, p, "remove the file to start the enrolment again"); err != nil {
		return nil, err
	}
	return p, nil
}

// Enroll tries once to make the node a member with b's token. The state must be locked. A repeated
// try after a lost answer or a crash sends the same key, and so gets the same certificate. keyKind
// is pki.Ed25519 or pki.P256; send posts the request over a connection pinned to b.CASHA256.
func (s *State) Enroll(
	ctx context.Context, b *Bootstrap, keyKind string, r Report,
	send func(context.Context, wire.EnrollRequest) (*wire.EnrollReply, error),
) (*Member, error) {
	s.change.Lock()
	defer s.change.Unlock()
	if b.Token == "" {
		return nil, taskcatalog.Errorf(CodeNoIdentitySource,
			"cannot enrol: %s names a broker and has no token (issue a token with hostler node create)", b.Source)
	}
	key, p, err := s.enrolmentKey(b, keyKind)
	if err != nil {
		return nil, err
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		return nil, err
	}
	reply, err := send(ctx, wire.EnrollRequest{
		Token: b.Token.Reveal(), CSR: string(csr), AgentVersion: r.AgentVersion, TaskTypes: r.TaskTypes,
		Capabilities: r.Capabilities, Facts: r.Facts, Agent: r.Agent, Hostname: r.Hostname, Now: s.now().UTC(),
		MAASSystemID: b.MAASSystemID,
	})
	if err != nil {
		return nil, err
	}
	trust, err := pki.FirstBundle([]byte(reply.TrustBundle), s.now())
	if err != nil {
		return nil, answerError("its trust bundle: %v", err)
	}
	m := &Member{
		NodeIdentity: pki.NodeIdentity{NodeID: reply.NodeID, Epoch: reply.NodeEpoch},
		Broker:       b.Broker, CASHA256: b.CASHA256, TokenHash: p.TokenHash,
		Key: key, Trust: trust, keyFile: p.KeyFile,
	}
	if m.Cert, err = certificateFor(key, reply.Certificate, m.NodeIdentity); err != nil {
		return nil, answerError("its certificate: %v", err)
	}
	s.DropCarried() // of an earlier enrolment
	// Written before the member is in force, because a crash in between must not lose the record.
	if old := s.Member(); old == nil || old.TokenHash != m.TokenHash {
		if err := s.writeFile(firstBootFile, []byte(m.TokenHash)); err != nil {
			return nil, stateError("cannot write %s: %v", firstBootFile, err)
		}
	}
	if err := s.save(m, false); err != nil {
		return nil, err
	}
	s.keepCarried(reply.ResolverConfig)
	// From here on the node is a member; remaining files are swept next time.
	_ = s.dir.Remove(pendingFile)
	_ = s.dir.Remove(rotationFile)
	s.rotation.Store(nil)
	s.sweep()
	return m, nil
}

// enrolmentKey returns the key made for this token, or makes it. Key and record are on disk when it
// returns.
func (s *State) enrolmentKey(b *Bootstrap, kind string) (crypto.Signer, *pending, error) {
	hash := pki.HashToken(b.Token.Reveal())
	p, err := s.pending()
	if err != nil {
		return nil, nil, err
	}
	if p != nil && p.TokenHash == hash {
		key, err := s.readKey(p.KeyFile)
		return key, p, err
	}
	if m := s.Member(); m != nil && m.TokenHash == hash {
		return m.Key, &pending{TokenHash: hash, KeyFile: m.keyFile}, nil
	}
	key, name, err := s.newKey(kind)
	if err != nil {
		return nil, nil, err
	}
	p = &pending{TokenHash: hash, KeyFile: name}
	raw, err := taskcatalog.Encode(p)
	if err != nil {
		return nil, nil, err
	}
	if err := s.writeFile(pendingFile, raw); err != nil {
		return nil, nil, stateError("cannot write %s: %v", pendingFile, err)
	}
	return key, p, nil
}

// AcceptTrust puts a trust bundle into force if the trust key in force signed it. It returns the
// version in force afterwards. A bundle that cannot be written does not come into force.
func (s *State) AcceptTrust(envelope string) (version int64, changed bool, err error) {
	s.change.Lock()
	defer s.change.Unlock()
	old := s.Member()
	if old == nil {
		return 0, false, stateError("cannot take trust bundle: this node is not enrolled")
	}
	next, err := old.Trust.Accept([]byte(envelope), s.now())
	if err != nil {
		return old.Trust.Version, false, err
	}
	if next.Version == old.Trust.Version {
		return next.Version, false, nil
	}
	m := *old
	m.Trust = next
	if err := s.save(&m, false); err != nil {
		return old.Trust.Version, false, err
	}
	return next.Version, true, nil
}

// certificateFor parses a PEM chain, leaf first, and verifies that its leaf is for this key and
// this node.
func certificateFor(key crypto.Signer, chain string, id pki.NodeIdentity) (tls.Certificate, error) {
	certs, err := pki.ParseCerts([]byte(chain))
	if err != nil {
		return tls.Certificate{}, err
	}
	got, err := pki.NodeIdentityOf(certs[0])
	if err != nil {
		return tls.Certificate{}, err
	}
	if got != id {
		return tls.Certificate{}, fmt.Errorf("the certificate is for node %s at epoch %d, not for node %s at epoch %d", got.NodeID,
			got.Epoch, id.NodeID, id.Epoch)
	}
	if !samePublicKey(key, certs[0]) {
		return tls.Certificate{}, errors.New("the certificate is for another key than this node's")
	}
	cert := tls.Certificate{PrivateKey: key, Leaf: certs[0]}
	for _, c := range certs {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}

func samePublicKey(key crypto.Signer, cert *x509.Certificate) bool {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	return err == nil && bytes.Equal(der, cert.RawSubjectPublicKeyInfo)
}

func chainPEM(cert tls.Certificate) string {
	var certs []*x509.Certificate
	for _, der := range cert.Certificate {
		if c, err := x509.ParseCertificate(der); err == nil {
			certs = append(certs, c)
		}
	}
	return string(pki.MarshalCerts(certs...))
}

func answerError(format string, args ...any) error {
	return taskcatalog.Errorf(CodeAnswerInvalid, "cannot use the broker's answer: "+format, args...)
}
