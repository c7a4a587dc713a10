package rotation

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// stolen makes a request with a copy of a node's key, from somewhere else, and
// returns the code of the answer; empty: a success.
func stolen(t *testing.T, b *servertest.Broker, certs []*x509.Certificate, key crypto.Signer, method, path string, body any) string {
	t.Helper()
	cert := &tls.Certificate{PrivateKey: key, Leaf: certs[0]}
	for _, c := range certs {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	config := pki.PinnedConfig(b.RootSHA256(), "127.0.0.1", b.Now)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	var raw []byte
	if body != nil {
		var err error
		if raw, err = taskcatalog.Encode(body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, b.AgentURL()+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var p wire.Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	return string(p.Code)
}

// renewal requests a certificate for the existing key.
func renewal(t *testing.T, i identity) wire.RenewRequest {
	t.Helper()
	key, err := pki.ParseKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	return wire.RenewRequest{CSR: string(csr), AgentVersion: "test", TaskTypes: []string{"node.drain@1"}, Capabilities: map[string]string{}, TrustVersion: 1}
}
