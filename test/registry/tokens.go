package registry

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

const service = "hostler-test"

// Tokens is a token service as Distribution describes it: a login gets a JWT that the registry
// accepts. The service speaks no TLS.
type Tokens struct {
	Accounts map[string]Account // by username
	Front    string             // URL at which a proxy with TLS leads to the service; empty: there is none

	server *httptest.Server
	key    *ecdsa.PrivateKey
	chain  []byte // the certificate of the key, DER

	mu    sync.Mutex
	asked []string
	made  []string
}

// Account is a user's permission for every repository.
type Account struct {
	Password string
	May      []string // pull, push, delete
	Always   []string // granted without a request, as by a faulty service
}

// grant is a token's permission.
type grant struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// Run starts the service. Close ends it.
func (s *Tokens) Run() error {
	var err error
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: service}, NotAfter: time.Now().Add(24 * time.Hour),
		NotBefore: time.Now().Add(-time.Hour),
	}
	if s.chain, err = x509.CreateCertificate(rand.Reader, ca, ca, s.key.Public(), s.key); err != nil {
		return err
	}
	s.server = httptest.NewServer(s)
	return nil
}

// Close ends the service.
func (s *Tokens) Close() { s.server.Close() }

// URL is where tokens are made.
func (s *Tokens) URL() string { return cmp.Or(s.Front, s.server.URL) + "/token" }

// Asked returns each requested scope.
func (s *Tokens) Asked() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.asked) }

// Made returns each issued token.
func (s *Tokens) Made() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.made) }

func (s *Tokens) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.chain})
}

// tokenLife is short, but longer than any test.
const tokenLife = 5 * time.Minute

// ServeHTTP issues a token for a login.
func (s *Tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	account, known := s.Accounts[user]
	if !known || account.Password != password {
		http.Error(w, "no such login: "+user+":"+password, http.StatusUnauthorized) // some real services answer like this
		return
	}
	grants := []grant{}
	for _, scope := range r.URL.Query()["scope"] {
		if parts := strings.SplitN(scope, ":", 3); len(parts) == 3 {
			actions := slices.DeleteFunc(strings.Split(parts[2], ","), func(a string) bool { return !slices.Contains(account.May, a) })
			grants = append(grants, grant{parts[0], parts[1], append(actions, account.Always...)})
		}
	}
	token, err := s.sign(user, grants)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	s.asked, s.made = append(s.asked, r.URL.Query().Get("scope")), append(s.made, token)
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": tokenLife.Seconds()})
}

// sign makes an ES256 JWT that contains the key's certificate.
func (s *Tokens) sign(user string, grants []grant) (string, error) {
	now := time.Now()
	header, err := json.Marshal(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(s.chain)}})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": service, "sub": user, "aud": service, "jti": rand.Text(), "access": grants,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(tokenLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	v.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw), nil
}
