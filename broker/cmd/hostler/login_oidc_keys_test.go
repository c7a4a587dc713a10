package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
	"github.com/hostler/hostler/test/oidcprovider"
)

// idToken signs somebody in to a client of a provider, without the broker.
func idToken(t *testing.T, provider *oidcprovider.Provider, client, subject string) string {
	t.Helper()
	attempt, err := signin.Begin(t.Context(), api.SignIn{
		ClientID: client, Scopes: []string{"openid"}, CA: provider.CA,
		DeviceAuthorizationEndpoint: provider.Issuer + "/device_authorization", TokenEndpoint: provider.Issuer + "/oauth/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Enter(t.Context(), attempt.Code, subject); err != nil {
		t.Fatal(err)
	}
	kept, err := attempt.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kept.IDToken
}

// A provider that changes its key keeps nobody out, also if its tokens do not name their keys, and the token
// of a key that was withdrawn lets nobody in any more once the keys were read.
func TestAPersonSignsInWithANewKeyOfTheProvider(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	ask := func(what, token, code string) {
		t.Helper()
		if a := p.broker.Ask(t, token, http.MethodGet, "/whoami", nil); a.Code() != code {
			t.Errorf("%s: %d %s, want %q", what, a.Status, a.Body, code)
		}
	}
	before := idToken(t, p.provider, oidcprovider.Client, "ada")
	ask("the first key", before, "")
	for _, id := range []string{"second", "", ""} {
		p.provider.Rotate(t, id)
		p.broker.Advance(10 * time.Second)
		after := idToken(t, p.provider, oidcprovider.Client, "ada")
		ask("a new key named "+id, after, "")
		ask("the key before "+id, before, "oidc_token_invalid")
		before = after
	}
}
