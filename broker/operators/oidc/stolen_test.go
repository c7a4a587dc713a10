package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/hostler/hostler/broker/operators/oidc/oidctest"
	"github.com/hostler/hostler/taskcatalog"
)

// What the provider has published is no secret: a token that is signed with a published key as a shared
// secret is refused, in whichever form the key is written.
func TestAPublishedKeyIsNoSecret(t *testing.T) {
	fake, p, _ := start(t)
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	fake.Publish(t, "rsa", "sig", rsaKey.Public())
	if _, err := p.Verify(t.Context(), oidctest.Sign(t, jose.RS256, rsaKey, "rsa", fake.Claims("u", nil))); err != nil {
		t.Fatal(err)
	}
	for id, public := range map[string]any{"first": fake.Public(), "rsa": rsaKey.Public()} {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		jwk, err := jose.JSONWebKey{Key: public, KeyID: id, Use: "sig"}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		for form, secret := range map[string][]byte{
			"PEM": text, "PEM without its last line's end": text[:len(text)-1], "DER": der, "JWK": jwk, "base64": []byte(base64.StdEncoding.EncodeToString(der)),
		} {
			for _, algorithm := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
				for _, named := range []string{id, ""} {
					if _, err := p.Verify(t.Context(), oidctest.Sign(t, algorithm, secret, named, fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
						t.Errorf("%s with key %q, %s: %v", algorithm, named, form, err)
					}
				}
			}
		}
	}
}

// A token brings no key along: the keys are those that the provider publishes at its own address.
func TestATokenBringsNoKeyAlong(t *testing.T) {
	fake, p, _ := start(t)
	mine, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for name, options := range map[string]*jose.SignerOptions{
		"jwk":  {EmbedJWK: true},
		"jku":  (&jose.SignerOptions{}).WithHeader("jku", "https://evil.example/keys"),
		"x5u":  (&jose.SignerOptions{}).WithHeader("x5u", "https://evil.example/chain"),
		"crit": (&jose.SignerOptions{}).WithHeader("crit", []string{"exp"}),
	} {
		for _, id := range []string{"", "first"} {
			key := jose.JSONWebKey{Key: mine, KeyID: id}
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Verify(t.Context(), signedBy(t, signer, fake.Claims("u", nil))); codeOf(err) != "oidc_token_invalid" {
				t.Errorf("%s of a token that names key %q: %v", name, id, err)
			}
		}
	}
}

// The word none is refused in each spelling, with and without a signature.
func TestNoTokenIsUnsigned(t *testing.T) {
	fake, p, _ := start(t)
	parts := strings.Split(fake.Token(t, "u", nil), ".")
	for _, algorithm := range []string{`"none"`, `"None"`, `"NONE"`, `"nOnE"`, `""`, `null`, `0`, `["none","ES256"]`} {
		for _, kid := range []string{"", `,"kid":"first"`} {
			header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":%s%s}`, algorithm, kid))
			for _, signature := range []string{"", parts[2]} {
				if _, err := p.Verify(t.Context(), header+"."+parts[1]+"."+signature); codeOf(err) != "oidc_token_invalid" {
					t.Errorf("%s%s, signed %t: %v", algorithm, kid, signature != "", err)
				}
			}
		}
	}
}

// Tokens that the provider itself has signed, and that are not for this broker, or not now. Clocks may differ
// by five minutes, and no token is good after its end.
func TestWhenAndForWhomATokenOfTheProviderIsGood(t *testing.T) {
	fake, p, c := start(t)
	now := c.now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, row := range map[string]struct {
		further map[string]any
		code    string
	}{
		"for this client alone, in a list":  {map[string]any{"aud": []string{"hostler"}}, ""},
		"for two, given to this one":        {map[string]any{"aud": []string{"hostler", "billing"}, "azp": "hostler"}, ""},
		"for another client":                {map[string]any{"aud": "billing"}, "oidc_token_invalid"},
		"for others, in a list":             {map[string]any{"aud": []string{"billing", "wiki"}}, "oidc_token_invalid"},
		"for others, given to this one":     {map[string]any{"aud": []string{"billing"}, "azp": "hostler"}, "oidc_token_invalid"},
		"for nobody":                        {map[string]any{"aud": []string{}}, "oidc_token_invalid"},
		"for this client in capitals":       {map[string]any{"aud": "Hostler"}, "oidc_token_invalid"},
		"for a client of a longer name":     {map[string]any{"aud": "hostler-dev"}, "oidc_token_invalid"},
		"for an object":                     {map[string]any{"aud": map[string]any{"hostler": true}}, "oidc_token_invalid"},
		"given to another client":           {map[string]any{"azp": "billing"}, "oidc_token_invalid"},
		"given to a client without a name":  {map[string]any{"azp": ""}, "oidc_token_invalid"},
		"given to this client in capitals":  {map[string]any{"azp": "HOSTLER"}, "oidc_token_invalid"},
		"of another issuer":                 {map[string]any{"iss": "https://id.example"}, "oidc_token_invalid"},
		"of the issuer over http":           {map[string]any{"iss": strings.Replace(fake.Issuer, "https", "http", 1)}, "oidc_token_invalid"},
		"of the issuer in capitals":         {map[string]any{"iss": strings.ToUpper(fake.Issuer)}, "oidc_token_invalid"},
		"of a realm of the issuer":          {map[string]any{"iss": fake.Issuer + "/realms/other"}, "oidc_token_invalid"},
		"good from now on":                  {map[string]any{"nbf": at(0)}, ""},
		"good in four minutes":              {map[string]any{"nbf": at(4 * time.Minute)}, ""},
		"good in six minutes":               {map[string]any{"nbf": at(6 * time.Minute)}, "oidc_token_invalid"},
		"good in a year":                    {map[string]any{"nbf": at(365 * 24 * time.Hour)}, "oidc_token_invalid"},
		"good from a text":                  {map[string]any{"nbf": "tomorrow"}, "oidc_token_invalid"},
		"issued in four minutes":            {map[string]any{"iat": at(4 * time.Minute)}, ""},
		"issued in six minutes":             {map[string]any{"iat": at(6 * time.Minute)}, "oidc_token_invalid"},
		"issued at a text":                  {map[string]any{"iat": "today"}, "oidc_token_invalid"},
		"that ends in a minute":             {map[string]any{"exp": at(time.Minute)}, ""},
		"that ended a second ago":           {map[string]any{"exp": at(-time.Second)}, "token_expired"},
		"that ended four minutes ago":       {map[string]any{"exp": at(-4 * time.Minute)}, "token_expired"},
		"that ended before the clock began": {map[string]any{"exp": -1}, "token_expired"},
		"that ends at a text":               {map[string]any{"exp": "tomorrow"}, "oidc_token_invalid"},
		"that ends with the calendar":       {map[string]any{"exp": int64(1) << 62}, ""},
		"of a number":                       {map[string]any{"sub": 7}, "oidc_token_invalid"},
	} {
		who, err := p.Verify(t.Context(), fake.Token(t, "u", row.further))
		if got := codeOf(err); got != row.code {
			t.Errorf("%s: %q, want %q", name, got, row.code)
		}
		if err == nil && who.Expires.After(now.Add(24*time.Hour+time.Second)) {
			t.Errorf("%s is good until %v", name, who.Expires)
		}
	}
}

// signedBy returns a token with claims.
func signedBy(t *testing.T, signer jose.Signer, claims any) string {
	t.Helper()
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
