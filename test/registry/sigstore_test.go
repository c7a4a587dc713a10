package registry

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
)

// sigstore is a certificate authority and a transparency log that cosign asks, on loopback.
type sigstore struct {
	*testing.T
	log *ca.VirtualSigstore
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
	url string
}

func newSigstore(t *testing.T) *sigstore {
	t.Helper()
	s := &sigstore{T: t, log: has(ca.NewVirtualSigstore())(t), key: has(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	s.ca = s.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "a private authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, nil, s.key.Public())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/signingCert", s.certify)
	mux.HandleFunc("POST /api/v1/log/entries", s.enter)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *sigstore) issue(c, parent *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	s.Helper()
	c.SerialNumber = has(rand.Int(rand.Reader, big.NewInt(1<<62)))(s.T)
	if parent == nil {
		parent = c
	}
	return has(x509.ParseCertificate(has(x509.CreateCertificate(rand.Reader, c, parent, public, s.key))(s.T)))(s.T)
}

func pemCertificate(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// certify is Fulcio: whoever has a token gets a certificate for its claims.
func (s *sigstore) certify(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		PublicKeyRequest struct{ PublicKey struct{ Content string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		s.Error(err)
	}
	var claims struct{ Email, Iss string }
	if err := json.Unmarshal(has(base64.RawURLEncoding.DecodeString(strings.Split(r.Header.Get("Authorization"), ".")[1]))(s.T), &claims); err != nil {
		s.Error(err)
	}
	block, _ := pem.Decode([]byte(ask.PublicKeyRequest.PublicKey.Content))
	leaf := s.issue(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(10 * time.Minute), EmailAddresses: []string{claims.Email},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(claims.Iss)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: has(asn1.MarshalWithParams(claims.Iss, "utf8"))(s.T)},
		},
	}, s.ca, has(x509.ParsePKIXPublicKey(block.Bytes))(s.T))
	s.answer(w, http.StatusOK, map[string]any{"signedCertificateEmbeddedSct": map[string]any{
		"chain": map[string]any{"certificates": []string{pemCertificate(leaf), pemCertificate(s.ca)}},
	}})
}

// enter is Rekor: what is sent is logged now.
func (s *sigstore) enter(w http.ResponseWriter, r *http.Request) {
	var entry any
	if err := json.NewDecoder(r.Body).Decode(&entry); err != nil {
		s.Error(err)
	}
	body := has(json.Marshal(entry))(s.T) // its members are sorted
	id := has(s.log.RekorLogID())(s.T)
	p := tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: time.Now().Unix(), LogIndex: 7, LogID: id}
	name := strings.Repeat("ab", 40)
	w.Header().Set("ETag", name)
	s.answer(w, http.StatusCreated, map[string]any{name: map[string]any{
		"body": p.Body, "integratedTime": p.IntegratedTime, "logID": p.LogID, "logIndex": p.LogIndex,
		"verification": map[string]any{"signedEntryTimestamp": has(s.log.RekorSignPayload(p))(s.T), "inclusionProof": has(s.log.GetInclusionProof(body))(s.T)},
	}})
}

func (s *sigstore) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.Error(err)
	}
}

// trustedRoot names the authority and the log.
func (s *sigstore) trustedRoot() string {
	s.Helper()
	logs := s.log.RekorLogs()
	for id, l := range logs {
		l.ID = has(hex.DecodeString(id))(s.T) // the library's tests have the text there
	}
	authority := &root.FulcioCertificateAuthority{Root: s.ca, ValidityPeriodStart: s.ca.NotBefore, URI: s.url}
	r := has(root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, nil, nil, logs))(s.T)
	return string(has(r.MarshalJSON())(s.T))
}

// config says where cosign signs; unlogged: nothing goes to the log.
func (s *sigstore) config(unlogged bool) string {
	s.Helper()
	service := func(version int) []any {
		return []any{map[string]any{"url": s.url, "majorApiVersion": version, "operator": "test", "validFor": map[string]any{"start": "2020-01-01T00:00:00Z"}}}
	}
	c := map[string]any{
		"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "caUrls": service(1),
		"rekorTlogConfig": map[string]any{"selector": "ANY"}, "tsaConfig": map[string]any{"selector": "ANY"},
	}
	if !unlogged {
		c["rekorTlogUrls"] = service(1)
	}
	return string(has(json.Marshal(c))(s.T))
}

// token is what a provider would give; nobody here verifies it.
func token(email, issuer string) string {
	part := func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }
	return part(`{"alg":"RS256"}`) + "." + part(fmt.Sprintf(`{"iss":%q,"sub":%q,"email":%q,"email_verified":true,"aud":"sigstore","exp":%d,"iat":%d}`,
		issuer, email, email, time.Now().Add(time.Hour).Unix(), time.Now().Unix())) + "." + part("x")
}

// keyless has cosign sign a file as an identity, and returns the bundle.
func (c *cosign) keyless(s *sigstore, email, issuer, file string, unlogged bool, how ...string) string {
	c.t.Helper()
	c.write("root.json", s.trustedRoot())
	c.write("signing.json", s.config(unlogged))
	args := []string{"sign-blob", "--yes", "--signing-config", "signing.json", "--identity-token", token(email, issuer), "--bundle", "keyless.json"}
	if !unlogged {
		args = append(args, "--trusted-root", "root.json")
	}
	c.must(append(append(args, how...), file)...)
	return string(c.read("keyless.json"))
}

func (c *cosign) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func has[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// trimmed is text without what surrounds it.
func trimmed(raw []byte) string { return string(bytes.TrimSpace(raw)) }
