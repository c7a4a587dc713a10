package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
)

// accounts are the broker's records with at most one account.
type accounts struct {
	of  *broker.RegistryCredential
	err error
}

func (a accounts) AgentRelease(context.Context, string) (store.AgentRelease, error) {
	return store.AgentRelease{}, nil
}

func (a accounts) RegistryCredential(_ context.Context, registry string) (broker.RegistryCredential, error) {
	if a.err != nil {
		return broker.RegistryCredential{}, a.err
	}
	if a.of == nil || a.of.Registry != registry {
		return broker.RegistryCredential{}, broker.Errorf(broker.NotFound, "registry_credential_not_found", "none")
	}
	return *a.of, nil
}

func blobOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve answers for a repository fleet/agent, with a token from the service.
func (h *hub) serve(parts map[string]string) {
	h.first = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer opaque" {
			w.Header().Set("WWW-Authenticate", strings.ReplaceAll(h.challenge, "%s", h.URL))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		text, ok := parts[strings.TrimPrefix(r.URL.Path, "/v2/fleet/agent/")]
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(text, "status "):
			w.WriteHeader(map[string]int{"400": 400, "403": 403, "418": 418, "503": 503}[strings.TrimPrefix(text, "status ")])
		case strings.HasPrefix(text, "https://"), strings.HasPrefix(text, "http://"):
			http.Redirect(w, r, text, http.StatusTemporaryRedirect)
		default:
			_, _ = fmt.Fprint(w, text)
		}
	}
}

func TestARepositoryIsReadAsAnybodyMay(t *testing.T) {
	h := newHub(t)
	p := &Pulls{Records: accounts{}, Client: h.client}
	h.service = func(w http.ResponseWriter, r *http.Request) {
		if _, _, login := r.BasicAuth(); login || r.URL.Query().Get("scope") != "repository:fleet/agent:pull" {
			t.Errorf("asked %s", r.URL)
		}
		_, _ = fmt.Fprint(w, `{"access_token":"opaque"}`)
	}
	h.serve(map[string]string{
		"manifests/latest": "m", "blobs/" + blobOf("b"): "b", "blobs/" + blobOf("other"): "b", "blobs/" + blobOf(strings.Repeat("x", 11)): strings.Repeat("x", 11),
		"referrers/" + blobOf("b"): "list", "referrers/" + blobOf("none"): "status 400", "manifests/secret": "status 403", "manifests/busy": "status 503", "manifests/tea": "status 418",
	})
	r, err := p.Open(t.Context(), h.record.Registry+"/fleet/agent")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, reference, want, code string
	}{
		{"manifests", "latest", "m", ""},
		{"manifests", "none", "", ""},
		{"blobs", blobOf("b"), "b", ""},
		{"blobs", blobOf("other"), "", ""},
		{"blobs", blobOf(strings.Repeat("x", 11)), "", ""},
		{"referrers", blobOf("b"), "list", ""},
		{"referrers", blobOf("none"), "", ""},
		{"manifests", "../../../token", "", ""},
		{"manifests", "secret", "", "registry_pull_refused"},
		{"manifests", "busy", "", "registry_unreachable"},
		{"manifests", "tea", "", "registry_answer_invalid"},
	} {
		raw, ok, err := r.Get(t.Context(), c.kind, c.reference, 10)
		if string(raw) != c.want || ok != (c.want != "") || (err != nil) != (c.code != "") || err != nil && broker.AsError(err).Code != c.code {
			t.Errorf("%s/%s: %q, %v, %v", c.kind, c.reference, raw, ok, err)
		}
	}
	h.first = func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") }
	if r, err := p.Open(t.Context(), h.record.Registry+"/fleet/agent"); err != nil || r.token != "" {
		t.Errorf("a registry that wants nothing: %v", err)
	}
}

func TestARepositoryIsReadWithTheAccount(t *testing.T) {
	h := newHub(t)
	files, err := secrets.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	h.record.VaultPath, h.record.Generation = broker.RegistryCredentialPath(h.record.Registry), "g-1"
	a, err := NewAccount(h.record, password)
	if err != nil {
		t.Fatal(err)
	}
	a.login.Realm = h.URL
	if err := Put(t.Context(), files, h.record, a); err != nil {
		t.Fatal(err)
	}
	p := &Pulls{Records: accounts{of: &h.record}, Secrets: files, Client: h.client}
	h.serve(map[string]string{"manifests/latest": "m"})
	r, err := p.Open(t.Context(), h.record.Registry+"/fleet/agent")
	if err != nil {
		t.Fatal(err)
	}
	if raw, ok, err := r.Get(t.Context(), "manifests", "latest", 10); string(raw) != "m" || !ok || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	h.record.PlainHTTP = true
	if _, err := p.Open(t.Context(), h.record.Registry+"/fleet/agent"); broker.AsError(err).Code != "registry_plain_http" {
		t.Errorf("%v", err)
	}
}

func TestARepositoryThatCannotBeReadIsNotOpened(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*hub, *accounts)
		reference string
		code      string
	}{
		"no repository":         {func(*hub, *accounts) {}, "HOST", "registry_answer_invalid"},
		"a repository with ..":  {func(*hub, *accounts) {}, "HOST/../token", "registry_answer_invalid"},
		"a login in the name":   {func(*hub, *accounts) {}, "a@HOST/x", "registry_answer_invalid"},
		"no database":           {func(_ *hub, a *accounts) { a.err = context.Canceled }, "HOST/fleet/agent", "internal"},
		"no answer":             {func(h *hub, _ *accounts) { h.client.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil }, "HOST/fleet/agent", "registry_unreachable"},
		"a service without TLS": {func(h *hub, _ *accounts) { h.challenge = `Bearer realm="http://hub/token"` }, "HOST/fleet/agent", "registry_realm_refused"},
		"Basic":                 {func(h *hub, _ *accounts) { h.challenge = `Basic realm="hub"` }, "HOST/fleet/agent", "registry_pull_refused"},
		"broken": {func(h *hub, _ *accounts) {
			h.first = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }
		}, "HOST/fleet/agent", "registry_unreachable"},
		"the service refuses": {func(h *hub, _ *accounts) {
			h.service = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }
		}, "HOST/fleet/agent", "registry_pull_refused"},
		"the service babbles": {func(h *hub, _ *accounts) { h.service = respondJSON("x") }, "HOST/fleet/agent", "registry_answer_invalid"},
		"no token":            {func(h *hub, _ *accounts) { h.service = respondJSON("{}") }, "HOST/fleet/agent", "registry_answer_invalid"},
	} {
		h, a := newHub(t), accounts{}
		c.change(h, &a)
		_, err := (&Pulls{Records: a, Client: h.client}).Open(t.Context(), strings.ReplaceAll(c.reference, "HOST", h.record.Registry))
		if err == nil || broker.AsError(err).Code != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, broker.AsError(err).Code, c.code)
		}
	}
}

// A blob may lie elsewhere. The token does not go there, and nobody sends the broker to itself.
func TestABlobElsewhereIsReadWithoutTheToken(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the token came to %s", r.URL)
		}
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "/again", http.StatusFound)
			return
		}
		_, _ = fmt.Fprint(w, "b")
	}))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		kind, to string
		local    bool // the target may be the broker's own machine
		want     string
		code     string
	}{
		"another place":         {"blobs", elsewhere.URL + "/b", true, "b", ""},
		"the broker's machine":  {"blobs", elsewhere.URL + "/b", false, "", "registry_unreachable"},
		"a service of metadata": {"blobs", "https://169.254.169.254/latest", false, "", "registry_unreachable"},
		"a place without TLS":   {"blobs", "http://127.0.0.1:1/b", true, "", "registry_unreachable"},
		"round and round":       {"blobs", elsewhere.URL + "/again", true, "", "registry_answer_invalid"},
		"a manifest elsewhere":  {"manifests", elsewhere.URL + "/b", true, "", "registry_answer_invalid"},
	} {
		h := newHub(t)
		h.serve(map[string]string{c.kind + "/" + blobOf("b"): c.to})
		if c.local {
			h.client.away.Transport = elsewhere.Client().Transport
		}
		r, err := (&Pulls{Records: accounts{}, Client: h.client}).Open(t.Context(), h.record.Registry+"/fleet/agent")
		if err != nil {
			t.Fatal(err)
		}
		raw, ok, err := r.Get(t.Context(), c.kind, blobOf("b"), 10)
		if string(raw) != c.want || ok != (c.want != "") || (err != nil) != (c.code != "") || err != nil && broker.AsError(err).Code != c.code {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}
