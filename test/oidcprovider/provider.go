package oidcprovider

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The clients.
const (
	Client = "hostler"
	Other  = "billing" // another application
)

// Person is a user of the provider.
type Person struct {
	Email  string
	Groups []string
}

// Provider is a running provider.
type Provider struct {
	Issuer string
	CAFile string
	CA     string // PEM

	Away    atomic.Bool  // requests are answered with 503
	Ended   atomic.Bool  // no sign-in is renewed any more
	Renewed atomic.Int64 // how often an ID token was renewed
	// Answering is called when the provider has renewed a sign-in, and nobody knows of it yet. It may break
	// the answer off by a panic with http.ErrAbortHandler. Nil: nothing is called.
	Answering atomic.Pointer[func()]

	store *store
}

// Start runs a provider of people, by their subjects, until the test ends.
func Start(t testing.TB, people map[string]Person) *Provider {
	t.Helper()
	p := &Provider{}
	clients := map[string]*storage.Client{}
	for _, id := range []string{Client, Other} {
		clients[id] = storage.NativeClient(id)
	}
	p.store = &store{Storage: storage.NewStorageWithClients(users(people), clients), provider: p, people: people}
	p.Rotate(t, "first")
	server := httptest.NewUnstartedServer(nil)
	p.Issuer = "https://" + server.Listener.Addr().String()
	handler, err := op.NewProvider(&op.Config{
		CryptoKey: [32]byte{1}, GrantTypeRefreshToken: true,
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime: 5 * time.Minute, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20,
		},
	}, p.store, op.StaticIssuer(p.Issuer), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		renewed := p.Renewed.Load()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if call := p.Answering.Load(); call != nil && p.Renewed.Load() > renewed {
			(*call)()
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(w)
	})
	server.StartTLS()
	t.Cleanup(server.Close)
	p.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	p.CAFile = filepath.Join(t.TempDir(), "provider.pem")
	if err := os.WriteFile(p.CAFile, []byte(p.CA), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// Enter signs a person in by a code, as the person's browser would.
func (p *Provider) Enter(ctx context.Context, code, subject string) error {
	return p.store.CompleteDeviceAuthorization(ctx, code, subject)
}

// Deny refuses a code, as the person would.
func (p *Provider) Deny(ctx context.Context, code string) error {
	return p.store.DenyDeviceAuthorization(ctx, code)
}

// Rotate makes a new key and withdraws the one before. With an empty id neither tokens nor keys name one.
func (p *Provider) Rotate(t testing.TB, id string) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.store.key.Store(&signingKey{private, id})
}

// store is the example's storage with public clients that may use device codes, with groups, and with keys
// that change.
type store struct {
	*storage.Storage
	provider *Provider
	people   map[string]Person
	key      atomic.Pointer[signingKey]
}

// SigningKey implements op.Storage.
func (s *store) SigningKey(context.Context) (op.SigningKey, error) { return s.key.Load(), nil }

// KeySet implements op.Storage.
func (s *store) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{s.key.Load()}}, nil
}

// signingKey implements op.SigningKey.
type signingKey struct {
	private *rsa.PrivateKey
	id      string
}

func (*signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *signingKey) Key() any                                  { return k.private }
func (k *signingKey) ID() string                                { return k.id }

// publicKey implements op.Key.
type publicKey struct{ of *signingKey }

func (publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                         { return k.of.private.Public() }
func (k publicKey) ID() string                       { return k.of.id }

// GetClientByClientID implements op.Storage.
func (s *store) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != Client && id != Other {
		return nil, errors.New("there is no such client")
	}
	return publicClient{storage.NativeClient(id)}, nil
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", s.people[request.GetSubject()].Groups)
	return s.Storage.SetUserinfoFromRequest(ctx, info, request, scopes)
}

// TokenRequestByRefreshToken implements op.Storage. The example forgets the client of a device code.
func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	if s.provider.Ended.Load() {
		return nil, op.ErrInvalidRefreshToken
	}
	found, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, op.ErrInvalidRefreshToken
	}
	request, ok := found.(*storage.RefreshTokenRequest)
	if !ok {
		return nil, errors.New("the example's storage has another kind of request")
	}
	request.ApplicationID = Client
	s.provider.Renewed.Add(1)
	return request, nil
}

type publicClient struct{ *storage.Client }

// GrantTypes implements op.Client.
func (publicClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeDeviceCode, oidc.GrantTypeRefreshToken}
}

// IDTokenUserinfoClaimsAssertion implements op.Client.
func (publicClient) IDTokenUserinfoClaimsAssertion() bool { return true }

type users map[string]Person

// GetUserByID implements storage.UserStore.
func (u users) GetUserByID(id string) *storage.User {
	return &storage.User{ID: id, Username: id, Email: u[id].Email, EmailVerified: u[id].Email != ""}
}

// GetUserByUsername implements storage.UserStore.
func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (users) ExampleClientID() string { return Client }
