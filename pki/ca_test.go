package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestNodeCertificateIsForClientsOnly(t *testing.T) {
	a := pkitest.New(t)
	cert := a.NewNode(t).Cert.Leaf
	if !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || cert.KeyUsage != x509.KeyUsageDigitalSignature || cert.IsCA {
		t.Errorf("node certificate may do %v, %v, CA %v", cert.ExtKeyUsage, cert.KeyUsage, cert.IsCA)
	}
	if want := a.Now.Add(-10 * time.Minute); !cert.NotBefore.Equal(want) {
		t.Errorf("node certificate begins %v, want ten minutes ago: %v", cert.NotBefore, want)
	}
	if want := a.Now.Add(24 * time.Hour); !cert.NotAfter.Equal(want) {
		t.Errorf("node certificate ends %v, want %v", cert.NotAfter, want)
	}
}

func TestServerCertificateIsForServersOnly(t *testing.T) {
	cert := pkitest.New(t).Server.Leaf
	if !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || cert.IsCA || len(cert.URIs) != 0 {
		t.Errorf("server certificate may do %v, CA %v, names %v", cert.ExtKeyUsage, cert.IsCA, cert.URIs)
	}
}

func TestSerialNumbersDoNotRepeat(t *testing.T) {
	a := pkitest.New(t)
	if x, y := pki.Serial(a.NewNode(t).Cert.Leaf), pki.Serial(a.NewNode(t).Cert.Leaf); x == y || len(x) < 30 {
		t.Errorf("serial numbers %q and %q", x, y)
	}
}

func TestIssuingIsRefused(t *testing.T) {
	a := pkitest.New(t)
	csr := must[*x509.CertificateRequest](t)(pki.ParseCSR(must[[]byte](t)(pki.NewCSR(keyOf(t, pki.Ed25519)))))
	caCSR := must[*x509.CertificateRequest](t)(pki.ParseCSR(must[[]byte](t)(pki.NewCSR(a.Issuing.Signer))))
	tampered := *csr
	tampered.PublicKey = keyOf(t, pki.Ed25519).Public()
	id := pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: 1}
	node := func(csr *x509.CertificateRequest, id pki.NodeIdentity, now time.Time) error {
		_, err := a.Issuing.IssueNode(csr, id, now, time.Hour)
		return err
	}
	_, noNames := a.Issuing.IssueServer(keyOf(t, pki.Ed25519).Public(), nil, nil, a.Now, time.Hour)
	_, badKey := a.Issuing.IssueServer("no key", []string{"localhost"}, nil, a.Now, time.Hour)
	_, rootKeyTwice := pki.NewIssuing(rand.Reader, a.RootCA, a.RootCA.Signer.Public(), "x", a.Now, time.Hour)
	for name, attack := range map[string]struct {
		err  error
		code taskcatalog.Code
	}{
		"a key that the request does not prove": {node(&tampered, id, a.Now), pki.CodeBadSignature},
		"the CA's own key":                      {node(caCSR, id, a.Now), pki.CodeKeyMismatch},
		"a name of another form":                {node(csr, pki.NodeIdentity{NodeID: "n-12", Epoch: 1}, a.Now), pki.CodeNodeIdentity},
		"epoch zero":                            {node(csr, pki.NodeIdentity{NodeID: id.NodeID}, a.Now), pki.CodeNodeIdentity},
		"an issuer that ran out":                {node(csr, id, a.Now.Add(pkitest.Life)), pki.CodeIssuerNotInForce},
		"an issuer that has not begun":          {node(csr, id, a.Now.Add(-time.Hour)), pki.CodeIssuerNotInForce},
		"a server without a name":               {noNames, pki.CodeServerNameMissing},
		"a server without a key":                {badKey, pki.CodeKeyType},
		"an issuing CA with the root's key":     {rootKeyTwice, pki.CodeKeyMismatch},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, attack.err, attack.code) })
	}
}

func TestCertificateNeverOutlivesItsIssuer(t *testing.T) {
	a := pkitest.New(t)
	node := a.Enroll(t, pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: 1}, 10*pkitest.Life)
	if !node.Cert.Leaf.NotAfter.Equal(a.Issuing.Cert.NotAfter) {
		t.Errorf("certificate ends %v, its issuer %v", node.Cert.Leaf.NotAfter, a.Issuing.Cert.NotAfter)
	}
}

// An issuing CA signs leaves: an authority below an issuing CA is rejected.
func TestIssuingCAMakesNoFurtherCA(t *testing.T) {
	a := pkitest.New(t)
	key := keyOf(t, pki.Ed25519)
	sub := must[*x509.Certificate](t)(pki.NewIssuing(rand.Reader, a.Issuing, key.Public(), "sub", a.Now, time.Hour))
	subCA := must[*pki.CA](t)(pki.NewCA([]*x509.Certificate{sub, a.Issuing.Cert, a.Root()}, key))
	csr := must[*x509.CertificateRequest](t)(pki.ParseCSR(must[[]byte](t)(pki.NewCSR(keyOf(t, pki.Ed25519)))))
	leaf := must[*x509.Certificate](t)(subCA.IssueNode(csr, pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: 1}, a.Now, time.Hour))
	_, err := pki.VerifyNodePeer(stateOf(leaf, sub, a.Issuing.Cert, a.Root()), a.Roots(), a.Now, nobody)
	wantCode(t, err, pki.CodeCertificateInvalid)
}

func TestCAOfAnotherKeyOrChainIsRefused(t *testing.T) {
	a, b := pkitest.New(t), pkitest.New(t)
	_, err := pki.NewCA(a.Issuing.Chain, b.Issuing.Signer)
	wantCode(t, err, pki.CodeKeyMismatch)
	_, err = pki.NewCA([]*x509.Certificate{a.Issuing.Cert, b.Root()}, a.Issuing.Signer)
	wantCode(t, err, pki.CodeCertificateInvalid)
	_, err = pki.NewCA([]*x509.Certificate{a.Issuing.Cert}, a.Issuing.Signer) // the root is missing
	wantCode(t, err, pki.CodeCertificateInvalid)
	node := a.NewNode(t)
	_, err = pki.NewCA([]*x509.Certificate{node.Cert.Leaf, a.Issuing.Cert, a.Root()}, node.Signer())
	wantCode(t, err, pki.CodeCertificateInvalid)
	_, err = pki.NewCA(nil, a.Issuing.Signer)
	wantCode(t, err, pki.CodeCertificateRequired)
}

func TestCertificatesComeBackInOrder(t *testing.T) {
	a := pkitest.New(t)
	got, err := pki.ParseCerts(pki.MarshalCerts(a.Issuing.Chain...))
	wantCode(t, err, "")
	if len(got) != 2 || !got[0].Equal(a.Issuing.Cert) || !got[1].Equal(a.Root()) {
		t.Errorf("other certificates came back: %v", got)
	}
	server := a.NewServer(t, []string{"broker.example"}, []net.IP{net.IPv4(10, 0, 0, 1)}).Leaf
	if err := server.VerifyHostname("broker.example"); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreRefused(t *testing.T) {
	root := pkitest.New(t).Root()
	good := pki.MarshalCerts(root)
	for name, attack := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"none":          {nil, pki.CodeCertificateRequired},
		"trailing data": {append(bytes.Clone(good), "x"...), pki.CodeMalformed},
		"leading data":  {append([]byte("x\n"), good...), pki.CodeMalformed},
		"a damaged one": {append([]byte("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"), good...), pki.CodeMalformed},
		"a key":         {must[[]byte](t)(pki.MarshalKey(keyOf(t, pki.Ed25519))), pki.CodeMalformed},
		"nine":          {bytes.Repeat(good, 9), pki.CodeTooLarge},
		"10 MB":         {bytes.Repeat([]byte("A"), 10<<20), pki.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.ParseCerts(attack.raw)
			wantCode(t, err, attack.code)
		})
	}
}
