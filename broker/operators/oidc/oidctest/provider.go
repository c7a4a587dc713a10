package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// ClientID is the broker's client at the provider.
const ClientID = "hostler"

// Provider is a running provider.
type Provider struct {
	Issuer string
	CAFile string

	Reads atomic.Int64                // of description and keys, each
	Away  atomic.Bool                 // every request is answered with 503
	Lie   func(w http.ResponseWriter) // answers instead of the description; nil: nobody
	Extra []map[string]any            // further keys of the key set, as they are

	now   func() time.Time // of Token
	empty atomic.Bool      // the key set
	mu    sync.Mutex
	keys  map[string]*ecdsa.PrivateKey // by id
	last  string                       // id of the key in force
}

// Start runs a provider until the test ends. Its tokens are issued by the clock now.
func Start(t testing.TB, now func() time.Time) *Provider {
	t.Helper()
	p := &Provider{now: now, keys: map[string]*ecdsa.PrivateKey{}}
	p.Rotate(t, "first")
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	p.Issuer, p.CAFile = server.URL, filepath.Join(t.TempDir(), "provider.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(p.CAFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// Rotate makes a new key and withdraws the others.
func (p *Provider) Rotate(t testing.TB, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.keys)
	p.keys[id], p.last = key, id
}

// Withdraw empties the key set. Token signs as before.
func (p *Provider) Withdraw() { p.empty.Store(true) }

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Reads.Add(1)
	switch {
	case p.Away.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/keys":
		answer(w, map[string]any{"keys": p.published()})
	case p.Lie != nil:
		p.Lie(w)
	default:
		answer(w, map[string]any{
			"issuer": p.Issuer, "jwks_uri": p.Issuer + "/keys", "token_endpoint": p.Issuer + "/token",
			"authorization_endpoint": p.Issuer + "/authorize", "device_authorization_endpoint": p.Issuer + "/device",
			"id_token_signing_alg_values_supported": []string{"none", "HS256", "ES256"},
		})
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	raw, _ := taskcatalog.Encode(v)
	_, _ = w.Write(raw)
}

func (p *Provider) published() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := []any{}
	if p.empty.Load() {
		return keys
	}
	for id, k := range p.keys {
		keys = append(keys, jose.JSONWebKey{Key: k.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	}
	for _, k := range p.Extra {
		keys = append(keys, k)
	}
	return keys
}

// Token signs an ID token of a subject for an hour, with further claims over the usual ones. A claim
// that is nil is left out.
func (p *Provider) Token(t testing.TB, subject string, further map[string]any) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return Sign(t, jose.ES256, p.keys[p.last], p.last, p.Claims(subject, further))
}

// Claims are those of an ID token of a subject, with further claims over the usual ones.
func (p *Provider) Claims(subject string, further map[string]any) map[string]any {
	now := p.now()
	claims := map[string]any{
		"iss": p.Issuer, "aud": ClientID, "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for name, v := range further {
		claims[name] = v
		if v == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Sign signs claims with any key.
func Sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := taskcatalog.Encode(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Public is the public key in force.
func (p *Provider) Public() *ecdsa.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &p.keys[p.last].PublicKey
}

// Publish adds a key of another kind to the key set.
func (p *Provider) Publish(t testing.TB, id, use string, public any) {
	t.Helper()
	raw, err := jose.JSONWebKey{Key: public, KeyID: id, Use: use}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var k map[string]any
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Extra = append(p.Extra, k)
}
