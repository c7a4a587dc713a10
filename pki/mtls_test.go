package pki_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

func nobody(string) bool { return false }

func stateOf(chain ...*x509.Certificate) tls.ConnectionState {
	return tls.ConnectionState{PeerCertificates: chain}
}

func TestNodePeerIsKnown(t *testing.T) {
	a := pkitest.New(t)
	node := a.NewNode(t)
	peer, err := pki.VerifyNodePeer(stateOf(node.Cert.Leaf, a.Issuing.Cert, a.Root()), a.Roots(), a.Now, nobody)
	wantCode(t, err, "")
	if peer.NodeIdentity != node.NodeIdentity || peer.Expired || peer.Serial != pki.Serial(node.Cert.Leaf) {
		t.Errorf("peer is %+v", peer)
	}
}

// An expired certificate is reported as expired, not refused: the node may still renew. This holds
// past the end of the issuing CA as well, and not for certificates with another fault.
func TestExpiredNodePeerIsMarked(t *testing.T) {
	a := pkitest.New(t)
	node := a.NewNode(t)
	state := stateOf(node.Cert.Leaf, a.Issuing.Cert)
	for after, expired := range map[time.Duration]bool{
		24 * time.Hour: false, 24*time.Hour + time.Second: true, 30 * 24 * time.Hour: true, 2 * pkitest.Life: true,
	} {
		peer, err := pki.VerifyNodePeer(state, a.Roots(), a.Now.Add(after), nobody)
		wantCode(t, err, "")
		if peer.Expired != expired {
			t.Errorf("after %v: Expired = %v", after, peer.Expired)
		}
	}
}

func TestNodePeerIsRefused(t *testing.T) {
	a, other := pkitest.New(t), pkitest.New(t)
	node, foreign := a.NewNode(t), other.NewNode(t)
	everyone := func(string) bool { return true }
	name := []*url.URL{pki.NodeURI(node.NodeID, 1)}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	chainOf := func(leaf *x509.Certificate) tls.ConnectionState { return stateOf(leaf, a.Issuing.Cert, a.Root()) }
	long := stateOf(node.Cert.Leaf)
	for range 8 {
		long.PeerCertificates = append(long.PeerCertificates, a.Issuing.Cert)
	}
	later := a.Now.Add(48 * time.Hour)
	rsaKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	// An authority for servers only, below our root, that certifies a node.
	serversKey := keyOf(t, pki.Ed25519)
	servers := must[*x509.Certificate](t)(x509.ParseCertificate(must[[]byte](t)(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		NotBefore: a.Now.Add(-time.Minute), NotAfter: a.Now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.Root(), serversKey.Public(), a.RootCA.Signer))))
	strayed := must[*x509.Certificate](t)((&pki.CA{Cert: servers, Signer: serversKey}).IssueNode(
		must[*x509.CertificateRequest](t)(pki.ParseCSR(must[[]byte](t)(pki.NewCSR(keyOf(t, pki.Ed25519))))), node.NodeIdentity, a.Now, time.Hour))

	for name, attack := range map[string]struct {
		state tls.ConnectionState
		now   time.Time
		deny  func(string) bool
		code  taskcatalog.Code
	}{
		"no certificate":           {tls.ConnectionState{}, a.Now, nobody, pki.CodeCertificateRequired},
		"denied":                   {chainOf(node.Cert.Leaf), a.Now, everyone, pki.CodeCertificateDenied},
		"denied and expired":       {chainOf(node.Cert.Leaf), later, everyone, pki.CodeCertificateDenied},
		"not yet valid":            {chainOf(node.Cert.Leaf), a.Now.Add(-11 * time.Minute), nobody, pki.CodeCertificateNotYetValid},
		"another CA":               {stateOf(foreign.Cert.Leaf, other.Issuing.Cert, other.Root()), a.Now, nobody, pki.CodeCertificateUnknownCA},
		"another CA and expired":   {stateOf(foreign.Cert.Leaf, other.Issuing.Cert, other.Root()), later, nobody, pki.CodeCertificateUnknownCA},
		"another CA, our chain":    {chainOf(foreign.Cert.Leaf), a.Now, nobody, pki.CodeCertificateUnknownCA},
		"no intermediate":          {stateOf(node.Cert.Leaf), a.Now, nobody, pki.CodeCertificateUnknownCA},
		"a chain of nine":          {long, a.Now, nobody, pki.CodeCertificateInvalid},
		"the broker's certificate": {chainOf(a.Server.Leaf), a.Now, nobody, pki.CodeCertificateWrongUsage},
		"the issuing CA itself":    {stateOf(a.Issuing.Cert, a.Root()), a.Now, nobody, pki.CodeCertificateWrongUsage},
		"a CA for servers only":    {stateOf(strayed, servers, a.Root()), a.Now, nobody, pki.CodeCertificateWrongUsage},
		"a CA named as a node": {
			chainOf(forge(t, a, x509.Certificate{URIs: name, ExtKeyUsage: client, IsCA: true, BasicConstraintsValid: true})),
			a.Now, nobody, pki.CodeCertificateWrongUsage,
		},
		"an RSA key": {
			chainOf(forgeFor(t, a, rsaKey.Public(), x509.Certificate{URIs: name, ExtKeyUsage: client})),
			a.Now, nobody, pki.CodeKeyType,
		},
		"no usage at all": {
			chainOf(forge(t, a, x509.Certificate{URIs: name})), a.Now, nobody, pki.CodeCertificateWrongUsage,
		},
		"two usages": {
			chainOf(forge(t, a, x509.Certificate{URIs: name, ExtKeyUsage: append(client, x509.ExtKeyUsageServerAuth)})),
			a.Now, nobody, pki.CodeCertificateWrongUsage,
		},
		"any usage": {
			chainOf(forge(t, a, x509.Certificate{URIs: name, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})),
			a.Now, nobody, pki.CodeCertificateWrongUsage,
		},
		"no node's name": {
			chainOf(forge(t, a, x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: client})),
			a.Now, nobody, pki.CodeNodeIdentity,
		},
	} {
		t.Run(name, func(t *testing.T) {
			peer, err := pki.VerifyNodePeer(attack.state, a.Roots(), attack.now, attack.deny)
			wantCode(t, err, attack.code)
			if peer != nil {
				t.Error("a refused peer came back")
			}
		})
	}
}

// shake runs one connection: the handshake, then one byte from the server, so that the client
// learns the server's decision. shake returns the errors of both sides.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	near := must[net.Conn](t)(net.Dial("tcp", listener.Addr().String()))
	far := must[net.Conn](t)(listener.Accept())
	_ = listener.Close()
	deadline := time.Now().Add(20 * time.Second)
	_ = near.SetDeadline(deadline)
	_ = far.SetDeadline(deadline)
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server)
		_, err := conn.Write([]byte{1})
		_ = far.Close()
		done <- err
	}()
	_, clientErr = tls.Client(near, client).Read(make([]byte, 1))
	_ = near.Close()
	return <-done, clientErr
}

func serve(cert tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
}

// broker returns the TLS of a listener that admits nodes and clients without a certificate.
func broker(a *pkitest.Authority, cert tls.Certificate, deny func(string) bool) *tls.Config {
	return pki.ServerConfig(serve(cert), a.Roots(), func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return nil
		}
		_, err := pki.VerifyNodePeer(cs, a.Roots(), a.Now, deny)
		return err
	})
}

func dial(config *tls.Config, name string) *tls.Config {
	config.ServerName = name
	return config
}

func TestNodeAndBrokerMeet(t *testing.T) {
	a := pkitest.New(t)
	cert := a.NewNode(t).Cert
	for name, client := range map[string]*tls.Config{
		"with a certificate":    dial(pki.ClientConfig(a.Roots(), &cert, time.Now), "localhost"),
		"without one":           dial(pki.ClientConfig(a.Roots(), nil, time.Now), "localhost"),
		"by address":            dial(pki.ClientConfig(a.Roots(), &cert, time.Now), "127.0.0.1"),
		"at first contact":      pki.PinnedConfig(a.Pin(), "localhost", time.Now),
		"first by IPv6 address": pki.PinnedConfig(a.Pin(), "::1", time.Now),
	} {
		t.Run(name, func(t *testing.T) {
			serverErr, clientErr := shake(t, broker(a, a.Server, nobody), client)
			wantCode(t, serverErr, "")
			wantCode(t, clientErr, "")
		})
	}
}

func TestBrokerRefusesANode(t *testing.T) {
	a, other := pkitest.New(t), pkitest.New(t)
	good, foreign := a.NewNode(t).Cert, other.NewNode(t).Cert
	serial := pki.Serial(good.Leaf)
	for name, attack := range map[string]struct {
		cert tls.Certificate
		deny func(string) bool
		code taskcatalog.Code
	}{
		"denied":                     {good, func(s string) bool { return s == serial }, pki.CodeCertificateDenied},
		"of another CA":              {foreign, nobody, pki.CodeCertificateUnknownCA},
		"with a broker certificate":  {a.Server, nobody, pki.CodeCertificateWrongUsage},
		"with another's chain ahead": {tls.Certificate{Certificate: append([][]byte{foreign.Certificate[0]}, good.Certificate[1:]...), PrivateKey: foreign.PrivateKey}, nobody, pki.CodeCertificateUnknownCA},
	} {
		t.Run(name, func(t *testing.T) {
			serverErr, clientErr := shake(t, broker(a, a.Server, attack.deny), dial(pki.ClientConfig(a.Roots(), &attack.cert, time.Now), "localhost"))
			wantCode(t, serverErr, attack.code)
			if clientErr == nil {
				t.Error("the client was let in")
			}
		})
	}

	t.Run("with a certificate whose key it lacks", func(t *testing.T) {
		stolen := tls.Certificate{Certificate: good.Certificate, PrivateKey: foreign.PrivateKey}
		serverErr, clientErr := shake(t, broker(a, a.Server, nobody), dial(pki.ClientConfig(a.Roots(), &stolen, time.Now), "localhost"))
		if serverErr == nil || clientErr == nil {
			t.Errorf("let in: server says %v, client says %v", serverErr, clientErr)
		}
	})
}

// A resumed session skips VerifyPeerCertificate; a denied node must still be refused.
func TestResumedSessionOfADeniedNodeIsRefused(t *testing.T) {
	a := pkitest.New(t)
	cert := a.NewNode(t).Cert
	var denied, resumed bool
	server := pki.ServerConfig(serve(a.Server), a.Roots(), func(cs tls.ConnectionState) error {
		resumed = cs.DidResume
		_, err := pki.VerifyNodePeer(cs, a.Roots(), a.Now, func(string) bool { return denied })
		return err
	})
	client := dial(pki.ClientConfig(a.Roots(), &cert, time.Now), "localhost")
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)

	for i := range 2 {
		serverErr, clientErr := shake(t, server, client)
		wantCode(t, serverErr, "")
		wantCode(t, clientErr, "")
		if resumed != (i == 1) {
			t.Fatalf("connection %d: resumed = %v; this test would show nothing", i, resumed)
		}
	}
	denied = true
	serverErr, clientErr := shake(t, server, client)
	if !resumed {
		t.Fatal("the session was not resumed; this test would show nothing")
	}
	wantCode(t, serverErr, pki.CodeCertificateDenied)
	if clientErr == nil {
		t.Error("the client was let in")
	}
}

func TestOnlyTLS13(t *testing.T) {
	a := pkitest.New(t)
	old := func(c *tls.Config) *tls.Config {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return c
	}
	client := func() *tls.Config { return dial(pki.ClientConfig(a.Roots(), nil, time.Now), "localhost") }
	for name, pair := range map[string][2]*tls.Config{
		"the client offers 1.2":                  {broker(a, a.Server, nobody), old(client())},
		"the server offers 1.2":                  {old(broker(a, a.Server, nobody)), client()},
		"the server offers 1.2 at first contact": {old(broker(a, a.Server, nobody)), pki.PinnedConfig(a.Pin(), "localhost", time.Now)},
	} {
		t.Run(name, func(t *testing.T) {
			serverErr, clientErr := shake(t, pair[0], pair[1])
			if serverErr == nil || clientErr == nil {
				t.Errorf("TLS 1.2 was spoken: server says %v, client says %v", serverErr, clientErr)
			}
		})
	}
}

func TestFirstContactRefusesABroker(t *testing.T) {
	a, other := pkitest.New(t), pkitest.New(t)
	node := a.NewNode(t)
	at := func(d time.Duration) func() time.Time { return func() time.Time { return a.Now.Add(d) } }
	// A stolen node key would need a node's usage with the broker's name.
	forged := keyOf(t, pki.Ed25519)
	leaf := forgeFor(t, a, forged.Public(), x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	named := tls.Certificate{Certificate: [][]byte{leaf.Raw, a.Issuing.Cert.Raw, a.Root().Raw}, PrivateKey: forged}
	// A chain that contains the pinned root and does not lead to the root.
	decoy := other.Server
	decoy.Certificate = append([][]byte{decoy.Certificate[0], other.Issuing.Cert.Raw}, a.Root().Raw)

	for name, attack := range map[string]struct {
		server   tls.Certificate
		pin      string
		name     string
		now      func() time.Time
		pinned   taskcatalog.Code
		ordinary bool // the ordinary client must refuse the certificate too
	}{
		"another root":             {other.Server, a.Pin(), "localhost", at(0), pki.CodePinMismatch, true},
		"the pinned root as decoy": {decoy, a.Pin(), "localhost", at(0), pki.CodeCertificateUnknownCA, true},
		"another name":             {a.Server, a.Pin(), "broker.example", at(0), pki.CodeServerNameMismatch, true},
		"a node as broker":         {node.Cert, a.Pin(), "localhost", at(0), pki.CodeServerNameMismatch, true},
		"a named node as broker":   {named, a.Pin(), "localhost", at(0), pki.CodeCertificateWrongUsage, true},
		"a clock a year behind":    {a.Server, a.Pin(), "localhost", at(-pkitest.Life), pki.CodeCertificateNotYetValid, true},
		"a clock years ahead":      {a.Server, a.Pin(), "localhost", at(2 * pkitest.Life), pki.CodeCertificateExpired, true},
		"the pin of the leaf":      {a.Server, pki.Fingerprint(a.Server.Leaf), "localhost", at(0), pki.CodePinMismatch, false},
		"an empty pin":             {a.Server, "", "localhost", at(0), pki.CodePinMismatch, false},
		"no name to expect":        {a.Server, a.Pin(), "", at(0), pki.CodeServerNameMissing, false},
	} {
		t.Run(name, func(t *testing.T) {
			serverErr, clientErr := shake(t, broker(a, attack.server, nobody), pki.PinnedConfig(attack.pin, attack.name, attack.now))
			wantCode(t, clientErr, attack.pinned)
			if serverErr == nil {
				t.Error("the broker saw a whole handshake")
			}
			if attack.ordinary {
				if _, err := shake(t, broker(a, attack.server, nobody), dial(pki.ClientConfig(a.Roots(), nil, attack.now), attack.name)); err == nil {
					t.Error("ClientConfig took the broker")
				}
			}
		})
	}
}

func TestServerWithoutACheckIsNotMade(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("ServerConfig took no check at all")
		}
	}()
	pki.ServerConfig(serve(tls.Certificate{}), nil, nil)
}

func TestANodeDoesNotSendItsRoot(t *testing.T) {
	a := pkitest.New(t)
	node := a.NewNode(t)
	whole := node.Cert
	whole.Certificate = [][]byte{node.Cert.Leaf.Raw, a.Issuing.Cert.Raw, a.Root().Raw}
	for name, cert := range map[string]tls.Certificate{"up to the root": whole, "without it": {
		Certificate: whole.Certificate[:2], PrivateKey: whole.PrivateKey, Leaf: whole.Leaf,
	}} {
		sent := must[*tls.Certificate](t)(pki.ClientConfig(a.Roots(), &cert, func() time.Time { return a.Now }).GetClientCertificate(nil))
		if len(sent.Certificate) != 2 || len(whole.Certificate) != 3 {
			t.Errorf("of a chain %s it sends %d", name, len(sent.Certificate))
		}
	}
}
