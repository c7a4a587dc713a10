package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

func csrPEM(t testing.TB, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &template, key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestCertificateRequestIsTaken(t *testing.T) {
	for _, kind := range []string{pki.Ed25519, pki.P256} {
		key := keyOf(t, kind)
		csr, err := pki.ParseCSR(must[[]byte](t)(pki.NewCSR(key)))
		wantCode(t, err, "")
		want := must[string](t)(pki.PublicKeyDigest(key.Public()))
		if got := must[string](t)(pki.PublicKeyDigest(csr.PublicKey)); got != want {
			t.Errorf("%s: the request is for key %s, want %s", kind, got, want)
		}
	}
}

func TestCertificateRequestIsRefused(t *testing.T) {
	key := keyOf(t, pki.Ed25519)
	good := must[[]byte](t)(pki.NewCSR(key))
	block, _ := pem.Decode(good)
	encode := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	badSignature := bytes.Clone(block.Bytes)
	badSignature[len(badSignature)-1] ^= 1
	otherKey := bytes.Clone(block.Bytes) // the key swapped for another, the signature kept
	at := bytes.Index(otherKey, must[[]byte](t)(x509.MarshalPKIXPublicKey(key.Public())))
	copy(otherKey[at:], must[[]byte](t)(x509.MarshalPKIXPublicKey(keyOf(t, pki.Ed25519).Public())))

	for name, attack := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"bad signature":         {encode("CERTIFICATE REQUEST", badSignature), pki.CodeBadSignature},
		"another's key":         {encode("CERTIFICATE REQUEST", otherKey), pki.CodeBadSignature},
		"RSA key":               {csrPEM(t, must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)), x509.CertificateRequest{}), pki.CodeKeyType},
		"P-384 key":             {csrPEM(t, must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), x509.CertificateRequest{}), pki.CodeKeyType},
		"10 MB":                 {bytes.Repeat([]byte("A"), 10<<20), pki.CodeTooLarge},
		"nothing":               {nil, pki.CodeMalformed},
		"no PEM":                {block.Bytes, pki.CodeMalformed},
		"another type":          {encode("CERTIFICATE", block.Bytes), pki.CodeMalformed},
		"trailing data":         {append(bytes.Clone(good), "x"...), pki.CodeMalformed},
		"leading data":          {append([]byte("x\n"), good...), pki.CodeMalformed},
		"two requests":          {append(bytes.Clone(good), good...), pki.CodeMalformed},
		"a damaged one before":  {append([]byte("-----BEGIN X-----\n!\n-----END X-----\n"), good...), pki.CodeMalformed},
		"headers":               {pem.EncodeToMemory(&pem.Block{Type: block.Type, Headers: map[string]string{"a": "b"}, Bytes: block.Bytes}), pki.CodeMalformed},
		"trailing DER":          {encode("CERTIFICATE REQUEST", append(bytes.Clone(block.Bytes), 0)), pki.CodeMalformed},
		"a certificate's DER":   {encode("CERTIFICATE REQUEST", pkitest.New(t).Root().Raw), pki.CodeMalformed},
		"a truncated request":   {encode("CERTIFICATE REQUEST", block.Bytes[:40]), pki.CodeMalformed},
		"a request of no bytes": {encode("CERTIFICATE REQUEST", nil), pki.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.ParseCSR(attack.raw)
			wantCode(t, err, attack.code)
		})
	}
}

// A node does not choose its name, its uses or its life.
func TestWhatACertificateRequestAsksForIsNotGranted(t *testing.T) {
	a := pkitest.New(t)
	ca := pkix.Extension{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}} // basicConstraints: CA
	csr := must[*x509.CertificateRequest](t)(pki.ParseCSR(csrPEM(t, keyOf(t, pki.P256), x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "hostler-broker"},
		DNSNames:        []string{"broker.example"},
		ExtraExtensions: []pkix.Extension{ca},
	})))
	id := pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: 3}
	cert := must[*x509.Certificate](t)(a.Issuing.IssueNode(csr, id, a.Now, time.Hour))
	if got := must[pki.NodeIdentity](t)(pki.NodeIdentityOf(cert)); got != id {
		t.Errorf("certificate names %+v, want %+v", got, id)
	}
	if cert.IsCA || len(cert.DNSNames) != 0 || cert.Subject.CommonName != id.NodeID {
		t.Errorf("certificate got more than its key from the request: CA %v, names %v, subject %v", cert.IsCA, cert.DNSNames, cert.Subject)
	}
}

func TestPrivateKeyComesBack(t *testing.T) {
	for _, kind := range []string{pki.Ed25519, pki.P256} {
		key := keyOf(t, kind)
		back, err := pki.ParseKey(must[[]byte](t)(pki.MarshalKey(key)))
		wantCode(t, err, "")
		if must[string](t)(pki.KeyID(back.Public())) != must[string](t)(pki.KeyID(key.Public())) {
			t.Errorf("%s: another key came back", kind)
		}
	}
	_, err := pki.GenerateKey("rsa")
	wantCode(t, err, pki.CodeKeyType)
}

func TestPrivateKeyIsRefusedWithoutQuotingIt(t *testing.T) {
	rsaKey := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))))
	for name, attack := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"RSA":        {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rsaKey}), pki.CodeKeyType},
		"not PKCS#8": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("hunter2hunter2")}), pki.CodeMalformed},
		"no PEM":     {[]byte("hunter2"), pki.CodeMalformed},
		"too large":  {bytes.Repeat([]byte("hunter2"), 10000), pki.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.ParseKey(attack.raw)
			wantCode(t, err, attack.code)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
}
