package oidc_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/broker/operators/oidc/oidctest"
)

// clock is a clock that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func start(t *testing.T) (*oidctest.Provider, *oidc.Provider, *clock) {
	t.Helper()
	c := &clock{}
	fake := oidctest.Start(t, c.now)
	p, err := oidc.New(oidc.Config{Issuer: fake.Issuer, ClientID: oidctest.ClientID, CAFile: fake.CAFile}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return fake, p, c
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Code
}

func TestAValidTokenNamesItsPerson(t *testing.T) {
	fake, p, _ := start(t)
	who, err := p.Verify(t.Context(), fake.Token(t, "u-17", map[string]any{
		"email": "ada@acme.example", "email_verified": true, "groups": []string{"lab", "ops"},
		"realm_access": map[string]any{"roles": []string{"admin"}}, "urn:x.y:roles": map[string]any{"owner": map[string]any{"1": "acme"}, "former": false, "never": nil},
	}))
	if err != nil || who.Name != "oidc:u-17" || who.Email != "ada@acme.example" {
		t.Fatalf("%+v, %v", who, err)
	}
	for _, row := range []struct {
		claim, value string
		want         bool
	}{
		{"sub", "u-17", true},
		{"sub", "u-1", false},
		{"groups", "ops", true},
		{"groups", "op", false},
		{"realm_access.roles", "admin", true},
		{"realm_access.roles", "user", false},
		{"urn:x.y:roles", "owner", true},
		{"urn:x.y:roles", "viewer", false},
		{"urn:x.y:roles", "former", false},
		{"urn:x.y:roles", "never", false},
		{"email", "ada@acme.example", true},
		{"email_verified", "true", true},
		{"nothing", "x", false},
		{"groups.ops", "x", false},
	} {
		if got := who.Has(row.claim, row.value); got != row.want {
			t.Errorf("%s has %s: %t", row.claim, row.value, got)
		}
	}
}

func TestAnAddressThatTheProviderHasNotVerifiedIsNone(t *testing.T) {
	fake, p, _ := start(t)
	for _, verified := range []any{nil, false, "false", 1} {
		who, err := p.Verify(t.Context(), fake.Token(t, "u", map[string]any{"email": "root@acme.example", "email_verified": verified}))
		if err != nil || who.Email != "" || who.Has("email", "root@acme.example") {
			t.Errorf("email_verified %v: %+v, %v", verified, who, err)
		}
	}
}

// Two subjects never have one name, and no subject gets text of its own into the audit log.
func TestTheNameOfASubject(t *testing.T) {
	fake, p, _ := start(t)
	seen := map[string]string{}
	for subject, plain := range map[string]bool{
		"248289761001": true, "auth0|5f7c8ec7": true, "Ada": true, "ada": true, "a b": false, "a\nb": false, "\x1b[31m": false, "ä": false,
		strings.Repeat("x", 59): true, strings.Repeat("x", 60): false, strings.Repeat("x", 255): false, "sha256.abc": false,
	} {
		who, err := p.Verify(t.Context(), fake.Token(t, subject, nil))
		if err != nil {
			t.Fatalf("%q: %v", subject, err)
		}
		if (who.Name == "oidc:"+subject) != plain || len(who.Name) > 64 || seen[who.Name] != "" {
			t.Errorf("%q has the name %q, as has %q", subject, who.Name, seen[who.Name])
		}
		seen[who.Name] = subject
	}
}

func TestAForgedTokenIsRefused(t *testing.T) {
	fake, p, c := start(t)
	good := fake.Token(t, "u", nil)
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public := publicKeyPEM(t, fake)
	claims := func(further map[string]any) map[string]any { return fake.Claims("u", further) }
	now := c.now()
	for name, raw := range map[string]string{
		"alg none":                    b64([]byte(`{"alg":"none","kid":"first"}`)) + "." + parts[1] + ".",
		"alg none with its signature": b64([]byte(`{"alg":"none","kid":"first"}`)) + "." + parts[1] + "." + parts[2],
		"no signature":                parts[0] + "." + parts[1] + ".",
		"another payload":             parts[0] + "." + b64([]byte(`{"sub":"root"}`)) + "." + parts[2],
		"the public key as a secret":  oidctest.Sign(t, jose.HS256, public, "first", claims(nil)),
		"another key of that name":    oidctest.Sign(t, jose.ES256, other, "first", claims(nil)),
		"an unknown key":              oidctest.Sign(t, jose.ES256, other, "theirs", claims(nil)),
		"a key without a name":        oidctest.Sign(t, jose.ES256, other, "", claims(nil)),
		"another audience":            fake.Token(t, "u", map[string]any{"aud": "billing"}),
		"no audience":                 fake.Token(t, "u", map[string]any{"aud": nil}),
		"given to another client":     fake.Token(t, "u", map[string]any{"aud": []string{"hostler", "billing"}, "azp": "billing"}),
		"two clients, given to none":  fake.Token(t, "u", map[string]any{"aud": []string{"hostler", "billing"}}),
		"one client, given to other":  fake.Token(t, "u", map[string]any{"azp": "billing"}),
		"another issuer":              fake.Token(t, "u", map[string]any{"iss": "https://evil.example"}),
		"the issuer with a slash":     fake.Token(t, "u", map[string]any{"iss": fake.Issuer + "/"}),
		"no issuer":                   fake.Token(t, "u", map[string]any{"iss": nil}),
		"no subject":                  fake.Token(t, "u", map[string]any{"sub": nil}),
		"a subject that is too long":  fake.Token(t, strings.Repeat("x", 256), nil),
		"no time of issue":            fake.Token(t, "u", map[string]any{"iat": nil}),
		"issued in the future":        fake.Token(t, "u", map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}),
		"not valid yet":               fake.Token(t, "u", map[string]any{"nbf": now.Add(time.Hour).Unix()}),
		"another party in capitals":   fake.Token(t, "u", map[string]any{"azp": "billing", "AZP": "hostler"}),
		"a party that is no text":     fake.Token(t, "u", map[string]any{"azp": []string{"hostler"}}),
		"another subject in capitals": fake.Token(t, "eve", map[string]any{"SUB": "ada"}),
		"a subject in odd letters":    fake.Token(t, "eve", map[string]any{"\u017fub": "ada"}),
		"another audience, capitals":  fake.Token(t, "u", map[string]any{"aud": "billing", "Aud": "hostler"}),
		"another address in capitals": fake.Token(t, "u", map[string]any{"Email": "root@acme.example", "email_verified": true}),
		"a logout token":              fake.Token(t, "u", map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}),
		"an access token":             fake.Token(t, "u", map[string]any{"typ": "Bearer"}),
		"a refresh token":             fake.Token(t, "u", map[string]any{"typ": "Refresh"}),
		"not base64":                  "a.b.c",
		"JSON serialisation":          `{"payload":"` + parts[1] + `","signatures":[]}`,
	} {
		if who, err := p.Verify(t.Context(), raw); codeOf(err) != "oidc_token_invalid" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	for name, further := range map[string]map[string]any{
		"expired":       {"iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(-time.Second).Unix()},
		"no expiry":     {"exp": nil},
		"24 hours old":  {"iat": now.Add(-24*time.Hour - time.Second).Unix(), "exp": now.Add(24 * time.Hour).Unix()},
		"expiry at 0":   {"exp": 0},
		"expired 1 day": {"iat": now.Add(-25 * time.Hour).Unix(), "exp": now.Add(-24 * time.Hour).Unix()},
	} {
		if who, err := p.Verify(t.Context(), fake.Token(t, "u", further)); codeOf(err) != "token_expired" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	c.advance(time.Hour + time.Second) // the broker's clock judges, not the machine's
	if _, err := p.Verify(t.Context(), good); codeOf(err) != "token_expired" {
		t.Errorf("after an hour: %v", err)
	}
}

// A provider signs other tokens than ID tokens with the same keys.
func TestTheHeaderOfATokenSaysItsKind(t *testing.T) {
	fake, p, _ := start(t)
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fake.Publish(t, "mine", "sig", key.Public())
	for kind, good := range map[any]bool{"JWT": true, "jwt": true, "at+jwt": false, "logout+jwt": false, "dpop+jwt": false, "": false, 7: false} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "mine"}},
			(&jose.SignerOptions{}).WithHeader(jose.HeaderType, kind))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Verify(t.Context(), signedBy(t, signer, fake.Claims("u", nil))); (err == nil) != good || err != nil && codeOf(err) != "oidc_token_invalid" {
			t.Errorf("typ %v: %v", kind, err)
		}
	}
	for _, kind := range []any{"ID", "JWT", "", nil} {
		if _, err := p.Verify(t.Context(), fake.Token(t, "u", map[string]any{"typ": kind})); err != nil {
			t.Errorf("the claim typ %v: %v", kind, err)
		}
	}
}

// publicKeyPEM is the provider's public key as whoever would use it as a secret may write it.
func publicKeyPEM(t *testing.T, fake *oidctest.Provider) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(fake.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestTheAlgorithmsThatCount(t *testing.T) {
	fake, p, _ := start(t)
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	for id, public := range map[string]any{"rsa": rsaKey.Public(), "weak": weak.Public(), "ed": edKey.Public(), "p384": p384.Public()} {
		fake.Publish(t, id, "sig", public)
	}
	fake.Publish(t, "enc", "enc", rsaKey.Public())
	fake.Extra = append(fake.Extra,
		map[string]any{"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"},
		map[string]any{"kty": "OKP", "crv": "Ed448", "kid": "odd", "x": "AAAA"}, map[string]any{"kty": "new"})
	for _, row := range []struct {
		id        string
		algorithm jose.SignatureAlgorithm
		key       any
		good      bool
	}{
		{"rsa", jose.RS256, rsaKey, true},
		{"rsa", jose.PS256, rsaKey, true},
		{"ed", jose.EdDSA, edKey, true},
		{"rsa", jose.RS512, rsaKey, false},
		{"weak", jose.RS256, weak, false},
		{"p384", jose.ES384, p384, false},
		{"enc", jose.RS256, rsaKey, false},
		{"shared", jose.HS256, []byte("secret-secret-secret-secret-secret"), false},
		{"", jose.RS256, rsaKey, true}, // a token need not name its key
	} {
		_, err := p.Verify(t.Context(), oidctest.Sign(t, row.algorithm, row.key, row.id, fake.Claims("u", nil)))
		if (err == nil) != row.good || err != nil && codeOf(err) != "oidc_token_invalid" {
			t.Errorf("%s with key %q: %v", row.algorithm, row.id, err)
		}
	}
}

// Tokens of unknown keys do not make the broker read the provider each time, and do not keep it from
// a key that is new.
func TestAFloodOfUnknownKeysReadsTheProviderSeldom(t *testing.T) {
	fake, p, c := start(t)
	good := fake.Token(t, "u", nil)
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	before := fake.Reads.Load()
	for i := range 500 {
		if _, err := p.Verify(t.Context(), oidctest.Sign(t, jose.ES256, other, fmt.Sprint(i), fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
			t.Fatal(err)
		}
	}
	if reads := fake.Reads.Load() - before; reads > 2 {
		t.Errorf("500 tokens made %d requests", reads)
	}
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Errorf("in the flood: %v", err)
	}
	fake.Rotate(t, "second")
	fresh := fake.Token(t, "u", nil)
	c.advance(10 * time.Second)
	if _, err := p.Verify(t.Context(), fresh); err != nil {
		t.Errorf("a new key, ten seconds later: %v", err)
	}
	if _, err := p.Verify(t.Context(), good); codeOf(err) != "oidc_token_invalid" {
		t.Errorf("the key that was withdrawn: %v", err)
	}
}

// The signature decides whether the keys are read again: a token need not name its key, and a provider may
// give a new key the name of the one before.
func TestANewKeyIsReadWhateverItsName(t *testing.T) {
	fake, p, c := start(t)
	if _, err := p.Verify(t.Context(), fake.Token(t, "u", nil)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "first", "second", "second", ""} {
		fake.Rotate(t, id)
		c.advance(10 * time.Second)
		if _, err := p.Verify(t.Context(), fake.Token(t, "u", nil)); err != nil {
			t.Errorf("a new key named %q: %v", id, err)
		}
	}
}

// Whatever strangers send, the provider is read six times a minute, and twice more at once.
func TestNoFloodReadsTheProviderOftenerThanTheRate(t *testing.T) {
	fake, p, c := start(t)
	good := fake.Token(t, "u", map[string]any{"exp": c.now().Add(2 * time.Hour).Unix()})
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	c.advance(50 * time.Minute)
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	before := fake.Reads.Load()
	for i := range 600 { // within a minute
		id := []string{fmt.Sprint(i), "", "first"}[i%3]
		if _, err := p.Verify(t.Context(), oidctest.Sign(t, jose.ES256, other, id, fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
			t.Fatal(err)
		}
		if _, err := p.Verify(t.Context(), good); err != nil {
			t.Fatalf("in the flood: %v", err)
		}
		c.advance(100 * time.Millisecond)
	}
	if reads := (fake.Reads.Load() - before) / 2; reads < 6 || reads > 8 { // each reads the description and the keys
		t.Errorf("the provider was read %d times", reads)
	}
}

func TestAWithdrawnKeyCountsForAnHourAtMost(t *testing.T) {
	fake, p, c := start(t)
	if _, err := p.Verify(t.Context(), fake.Token(t, "u", nil)); err != nil {
		t.Fatal(err)
	}
	good := fake.Token(t, "u", map[string]any{"exp": c.now().Add(5 * time.Hour).Unix()})
	fake.Rotate(t, "second")
	c.advance(59 * time.Minute)
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Errorf("within the hour: %v", err)
	}
	c.advance(2 * time.Minute)
	if _, err := p.Verify(t.Context(), good); codeOf(err) != "oidc_token_invalid" {
		t.Errorf("after the hour: %v", err)
	}
}

func TestAProviderThatIsAwayIsAskedAgain(t *testing.T) {
	fake, p, c := start(t)
	fake.Away.Store(true)
	good := fake.Token(t, "u", nil)
	for range 100 {
		if _, err := p.Verify(t.Context(), good); codeOf(err) != "oidc_unavailable" {
			t.Fatal(err)
		}
	}
	if reads := fake.Reads.Load(); reads > 2 {
		t.Errorf("100 tokens made %d requests", reads)
	}
	if _, err := p.SignIn(t.Context()); codeOf(err) != "oidc_unavailable" {
		t.Errorf("sign-in: %v", err)
	}
	fake.Away.Store(false)
	c.advance(10 * time.Second)
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Errorf("it is back: %v", err)
	}
	in, err := p.SignIn(t.Context())
	if err != nil || in.TokenURL != fake.Issuer+"/token" || in.DeviceURL != fake.Issuer+"/device" || strings.Join(in.Scopes, " ") != "openid email offline_access" || in.CA == "" {
		t.Errorf("%+v, %v", in, err)
	}
	fake.Away.Store(true) // who is signed in stays, for an hour
	c.advance(59 * time.Minute)
	if _, err := p.Verify(t.Context(), fake.Token(t, "u", nil)); err != nil {
		t.Errorf("the keys are known: %v", err)
	}
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	before := fake.Reads.Load()
	if _, err := p.Verify(t.Context(), oidctest.Sign(t, jose.ES256, other, "theirs", fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
		t.Errorf("an unknown key while the keys are known: %v", err)
	}
	if fake.Reads.Load() == before {
		t.Error("an unknown key made no read")
	}
}

// A key set that nobody can use does not take the place of one that serves.
func TestAnEmptyKeySetReplacesNothing(t *testing.T) {
	fake, p, c := start(t)
	good := fake.Token(t, "u", nil)
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	fake.Withdraw()
	c.advance(10 * time.Second)
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	before := fake.Reads.Load()
	if _, err := p.Verify(t.Context(), oidctest.Sign(t, jose.ES256, other, "theirs", fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
		t.Errorf("an unknown key: %v", err)
	}
	if fake.Reads.Load() == before {
		t.Fatal("the provider was not read")
	}
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Errorf("a good token: %v", err)
	}
}

func TestAProviderThatMisbehavesIsAway(t *testing.T) {
	for name, lie := range map[string]func(*oidctest.Provider, http.ResponseWriter){
		"of another name": func(_ *oidctest.Provider, w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"issuer":"https://evil.example","jwks_uri":"https://evil.example/k"}`))
		},
		"keys over http": func(p *oidctest.Provider, w http.ResponseWriter) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.Issuer, "http"+strings.TrimPrefix(p.Issuer, "https")+"/keys")
		},
		"keys nowhere": func(p *oidctest.Provider, w http.ResponseWriter) { _, _ = fmt.Fprintf(w, `{"issuer":%q}`, p.Issuer) },
		"no end": func(p *oidctest.Provider, w http.ResponseWriter) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"more":%q}`, p.Issuer, p.Issuer+"/keys", strings.Repeat("x", 1<<20))
		},
		"no JSON": func(_ *oidctest.Provider, w http.ResponseWriter) { _, _ = w.Write([]byte("<html>\x1b[31m")) },
		"leads elsewhere": func(p *oidctest.Provider, w http.ResponseWriter) {
			w.Header().Set("Location", p.Issuer+"/keys")
			w.WriteHeader(302)
		},
	} {
		fake, p, _ := start(t)
		fake.Lie = func(w http.ResponseWriter) { lie(fake, w) }
		_, err := p.Verify(t.Context(), fake.Token(t, "u", nil))
		if codeOf(err) != "oidc_unavailable" || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %v", name, err)
		}
		// What the provider answered is for the log, and not for strangers.
		if told := broker.AsError(err).Message; !strings.HasPrefix(err.Error(), told+": ") || len(told) > 250 || strings.Contains(told, "html") {
			t.Errorf("%s: strangers are told %q of %v", name, told, err)
		}
	}
}

func TestAConfigIsCheckedBeforeTheProviderIsRead(t *testing.T) {
	good := oidc.Config{Issuer: "https://id.example/realms/corp", ClientID: "hostler"}
	for name, change := range map[string]func(*oidc.Config){
		"plain http":     func(c *oidc.Config) { c.Issuer = "http://id.example" },
		"no issuer":      func(c *oidc.Config) { c.Issuer = "" },
		"a password":     func(c *oidc.Config) { c.Issuer = "https://a:b@id.example" },
		"a query":        func(c *oidc.Config) { c.Issuer = "https://id.example?x=1" },
		"no client":      func(c *oidc.Config) { c.ClientID = "" },
		"odd client":     func(c *oidc.Config) { c.ClientID = "a\nb" },
		"odd scope":      func(c *oidc.Config) { c.Scopes = []string{"a b"} },
		"many scopes":    func(c *oidc.Config) { c.Scopes = make([]string, 17) },
		"no such CA":     func(c *oidc.Config) { c.CAFile = "/nonexistent" },
		"CA without one": func(c *oidc.Config) { c.CAFile = "provider_test.go" },
	} {
		c := good
		change(&c)
		if _, err := oidc.New(c, time.Now); codeOf(err) != "oidc_config_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := oidc.New(good, time.Now); err != nil {
		t.Error(err)
	}
}

// Anybody may read the roots of the provider: nothing but certificates is published.
func TestOnlyCertificatesOfTheFileArePublished(t *testing.T) {
	fake, _, c := start(t)
	ca, err := os.ReadFile(fake.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind, body string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(body)}))
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	signIn := func(text string) (oidc.SignIn, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := oidc.New(oidc.Config{Issuer: fake.Issuer, ClientID: oidctest.ClientID, CAFile: file}, c.now)
		if err != nil {
			return oidc.SignIn{}, err
		}
		return p.SignIn(t.Context())
	}
	for name, text := range map[string]string{
		"a key after it":       string(ca) + block("PRIVATE KEY", "planted"),
		"a key before it":      block("EC PRIVATE KEY", "planted") + string(ca),
		"a key as certificate": string(ca) + block("CERTIFICATE", "planted"),
		"half a key":           string(ca) + "-----BEGIN PRIVATE KEY-----\ncGxhbnRlZA\n",
		"too long":             string(ca) + strings.Repeat("\n", 32<<10),
	} {
		if in, err := signIn(text); codeOf(err) != "oidc_config_invalid" {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
	}
	if in, err := signIn("Subject: planted\n" + string(ca) + "\n" + string(ca)); err != nil || in.CA != string(ca)+string(ca) {
		t.Errorf("%q, %v", in.CA, err)
	}
}

func TestWhatHasTheFormOfAToken(t *testing.T) {
	for bearer, want := range map[string]bool{
		"a.b.c": true, "a.b.": true, "hso_abc": false, "": false, "a.b": false, "a.b.c.d": false, "a.b.c\n": false, "a. b.c": false,
		"a." + strings.Repeat("x", 16<<10) + ".c": false,
	} {
		if oidc.IsToken(bearer) != want {
			t.Errorf("%.20q: %t", bearer, !want)
		}
	}
}
