package signin_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
)

// provider answers every request with one status and one text.
func provider(t *testing.T, status int, text string) api.SignIn {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return api.SignIn{ClientID: "hostler", DeviceAuthorizationEndpoint: server.URL, TokenEndpoint: server.URL, CA: string(ca)}
}

// What the provider sends is shown to a person: an address is one of https, and no text goes to the
// terminal as it is.
func TestACodeThatCannotBeShownIsNone(t *testing.T) {
	device := func(uri, code string) string {
		return fmt.Sprintf(`{"device_code":"d","user_code":%q,"verification_uri":%q,"expires_in":60}`, code, uri)
	}
	for name, row := range map[string]struct {
		status     int
		text, code string
	}{
		"good":             {200, device("https://id.example/device", "AB-CD"), ""},
		"plain http":       {200, device("http://id.example/device", "AB-CD"), "sign_in_unavailable"},
		"another scheme":   {200, device("javascript:alert(1)", "AB-CD"), "sign_in_unavailable"},
		"no code":          {200, device("https://id.example/device", ""), "sign_in_unavailable"},
		"a code that acts": {200, device("https://id.example/device", "\u001b[31mAB"), "sign_in_unavailable"},
		"no JSON":          {200, "<html>", "sign_in_unavailable"},
		"elsewhere":        {302, "", "sign_in_refused"},
		"busy":             {429, "{}", "sign_in_unavailable"},
		"no such client":   {401, `{"error":"invalid_client","error_description":"secret words"}`, "sign_in_refused"},
		"an odd refusal":   {400, `{"error":"\u001b[31mnew"}`, "sign_in_refused"},
	} {
		_, err := signin.Begin(t.Context(), provider(t, row.status, row.text))
		got := ""
		if err != nil {
			got = broker.AsError(err).Code
		}
		if got != row.code || err != nil && (strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), "secret words")) {
			t.Errorf("%s: %v, want %q", name, err, row.code)
		}
	}
	over := provider(t, 200, device("https://id.example/device", "AB-CD"))
	over.TokenEndpoint = "http://id.example/token"
	if _, err := signin.Begin(t.Context(), over); broker.AsError(err).Code != "sign_in_unavailable" {
		t.Errorf("tokens over http: %v", err)
	}
}

// A provider that renews without an ID token does not take away the one that is there. The refresh token
// that it gives counts from then on.
func TestARenewalWithoutAnIDTokenKeepsTheOneThatIsThere(t *testing.T) {
	at := provider(t, 200, `{"access_token":"a","token_type":"Bearer","refresh_token":"new"}`)
	path := filepath.Join(t.TempDir(), "dc1.sign-in")
	now := time.Unix(1_800_000_000, 0)
	// {"exp":1800000030}
	kept := &clientfile.SignIn{ClientID: "hostler", TokenEndpoint: at.TokenEndpoint, CA: at.CA, IDToken: "e30.eyJleHAiOjE4MDAwMDAwMzB9.x", RefreshToken: "old"}
	if err := kept.Write(path); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	if token, err := signin.Open(path, clock).Token(t.Context()); err != nil || token != kept.IDToken {
		t.Errorf("%q, %v", token, err)
	}
	now = now.Add(time.Minute)
	if _, err := signin.Open(path, clock).Token(t.Context()); broker.AsError(err).Code != "sign_in_unavailable" {
		t.Errorf("it has ended: %v", err)
	}
	if got, err := clientfile.ReadSignIn(path); err != nil || got.RefreshToken != "new" || !got.RenewingSince.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	kept.RefreshToken = ""
	if err := kept.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := signin.Open(path, clock).Token(t.Context()); broker.AsError(err).Code != "sign_in_refused" {
		t.Errorf("nothing renews it: %v", err)
	}
}
