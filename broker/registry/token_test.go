package registry

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

const password = "planted-password"

var now = time.Unix(1_800_000_000, 0)

// hub is a registry and its token service, over TLS, and what they answer.
type hub struct {
	*httptest.Server
	client    *Client
	record    broker.RegistryCredential
	challenge string // with %s for this server's address
	realm     string // where the account was tried; empty: here
	first     func(http.ResponseWriter, *http.Request)
	service   func(http.ResponseWriter, *http.Request)
	shown     atomic.Int32 // how often somebody was shown a login
}

const newChallenge = `Bearer realm="%s/token",service="hub",scope="repository:fleet/agent:pull,push"`

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{client: NewClient(func() time.Time { return now }), challenge: newChallenge}
	h.service = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"token":"opaque","expires_in":300}`)
	}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	h.trust(h.Server)
	h.record = broker.RegistryCredential{Registry: strings.TrimPrefix(h.URL, "https://"), Username: "pull"}
	return h
}

func (h *hub) trust(s *httptest.Server) {
	h.client.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		h.shown.Add(1)
	}
	switch {
	case r.URL.Path == "/token":
		h.service(w, r)
	case h.first != nil:
		h.first(w, r)
	default:
		w.Header().Set("WWW-Authenticate", strings.ReplaceAll(h.challenge, "%s", h.URL))
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func (h *hub) pull(t *testing.T) (token, error) {
	t.Helper()
	a, err := NewAccount(h.record, password)
	if err != nil {
		t.Fatal(err)
	}
	if a.login.Realm = h.realm; h.realm == "" {
		a.login.Realm = h.URL
	}
	got, err := h.client.pull(t.Context(), h.record, a, "fleet/agent")
	if err != nil && strings.Contains(fmt.Sprintf("%v %+v", err, a), "planted") {
		t.Errorf("the error holds the secret: %v", err)
	}
	return got, err
}

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestATokenIsAskedForPullingOneRepositoryWithTheAccount(t *testing.T) {
	h := newHub(t)
	h.challenge = `Bearer realm="%s/token?account=x&scope=repository:*:push", service="a \"hub\"",scope="registry:catalog:*"`
	h.service = func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		q := r.URL.Query()
		if user != "pull" || pass != password || len(q["scope"]) != 1 || q.Get("scope") != "repository:fleet/agent:pull" || q.Get("service") != `a "hub"` || q.Get("account") != "x" {
			t.Errorf("asked by %s: %s", user, r.URL)
		}
		_, _ = fmt.Fprint(w, `{"token":"opaque","expires_in":300,"issued_at":"2020-01-01T00:00:00Z"}`)
	}
	got, err := h.pull(t)
	if err != nil || got != (token{"opaque", now.Add(5 * time.Minute)}) || h.shown.Load() != 1 {
		t.Errorf("%+v, %v; a login was shown %d times", got, err, h.shown.Load())
	}
}

func TestTryingAnAccountAsksForNothing(t *testing.T) {
	h := newHub(t)
	h.challenge = `Bearer realm="%s/token?scope=repository:*:push",scope="registry:catalog:*"`
	h.service = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("scope") {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = fmt.Fprint(w, `{"token":"opaque"}`)
	}
	a, err := NewAccount(h.record, password)
	if err == nil {
		a, err = h.client.Try(t.Context(), h.record, a)
	}
	if err != nil || h.shown.Load() != 1 || a.login.Realm != h.URL || a.login.Password != password {
		t.Errorf("%v; a login was shown %d times", err, h.shown.Load())
	}
}

func TestATokenEndsWhenTheFirstSaysSo(t *testing.T) {
	pull := `"access":[{"type":"repository","name":"fleet/agent","actions":["pull"]}]`
	for answer, want := range map[string]time.Duration{
		`{"access_token":"t"}`:            time.Minute, // the protocol's
		`{"token":"t","expires_in":7200}`: 2 * time.Hour,
		`{"token":"t","expires_in":1.5}`:  1500 * time.Millisecond,
		`{"token":"` + jwt(fmt.Sprintf(`{%s,"exp":%d}`, pull, now.Unix()+30)) + `","expires_in":300}`:   30 * time.Second,
		`{"token":"` + jwt(fmt.Sprintf(`{%s,"exp":%d}`, pull, now.Unix()+3000)) + `","expires_in":300}`: 300 * time.Second,
	} {
		h := newHub(t)
		h.service = func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, answer) }
		if got, err := h.pull(t); err != nil || !got.expires.Equal(now.Add(want)) {
			t.Errorf("%s: ends at %v, %v", answer, got.expires, err)
		}
	}
}

// What opens more than was asked for, or for longer, no node is given, whoever's mistake
// it is. Only a token that can be read says so.
func TestATokenThatOpensMoreIsRefused(t *testing.T) {
	const pull = `{"type":"repository","name":"fleet/agent","actions":["pull"]}`
	for claims, code := range map[string]string{
		`{"access":[` + pull + `]}`: "",
		`{"access":[` + pull + `,{"type":"repository","name":"other","actions":[]}]}`: "",
		`{"sub":"says nothing"}`:                "",
		`no JSON`:                               "registry_token_unreadable",
		`{"access":"all"}`:                      "registry_token_unreadable",
		`{"exp":"never"}`:                       "registry_token_unreadable",
		`{"access":[],"access":[` + pull + `]}`: "registry_token_unreadable",
		`{"exp":1e300}`:                         "registry_token_too_wide",
		`{"exp":99999999999999}`:                "registry_token_too_wide",
		`{"access":[{"type":"repository","name":"fleet/agent","actions":["pull","push"]}]}`: "registry_token_too_wide",
		`{"access":[{"type":"repository","name":"fleet/agent","actions":["*"]}]}`:           "registry_token_too_wide",
		`{"access":[{"type":"repository","name":"fleet/agent","actions":["delete"]}]}`:      "registry_token_too_wide",
		`{"access":[` + pull + `,{"type":"repository","name":"other","actions":["pull"]}]}`: "registry_token_too_wide",
		`{"access":[` + pull + `,{"type":"registry","name":"catalog","actions":["*"]}]}`:    "registry_token_too_wide",
		`{"access":[]}`: "registry_pull_refused",
		`{"access":[{"type":"repository","name":"fleet/agent","actions":[]}]}`:     "registry_pull_refused",
		fmt.Sprintf(`{"access":[`+pull+`],"exp":%d}`, now.Add(3*time.Hour).Unix()): "registry_token_too_wide",
	} {
		h := newHub(t)
		h.service = func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"token":%q}`, jwt(claims)) }
		if _, err := h.pull(t); err == nil && code != "" || err != nil && broker.AsError(err).Code != code {
			t.Errorf("%s: %v, want %s", claims, err, code)
		}
	}
}

func TestATokenThatLivesTooLongIsRefused(t *testing.T) {
	for _, seconds := range []string{"7201", "31536000", "1e300"} {
		h := newHub(t)
		h.service = respondJSON(`{"token":"opaque","expires_in":` + seconds + `}`)
		if _, err := h.pull(t); broker.AsError(err).Code != "registry_token_too_wide" {
			t.Errorf("%s: %v", seconds, err)
		}
	}
}

// The account goes to the token service that the registry names over TLS, and nowhere
// else; and nothing of an answer is told.
func TestTheAccountGoesNowhereElse(t *testing.T) {
	var leaked atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.String(), "planted") {
			leaked.Add(1)
		}
	}))
	t.Cleanup(thief.Close)
	respond := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", thief.URL+"/token")
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body, r.Header["Authorization"])
		}
	}
	for name, c := range map[string]struct {
		change func(*hub)
		code   string
		shown  int32 // how often the hub may see the login
	}{
		"it wants the account itself":        {func(h *hub) { h.challenge = `Basic realm="hub"` }, "registry_no_tokens", 0},
		"it wants nothing":                   {func(h *hub) { h.first = respond(200, "{}") }, "registry_no_tokens", 0},
		"its service is without TLS":         {func(h *hub) { h.challenge = `Bearer realm="` + thief.URL + `/token"` }, "registry_realm_refused", 0},
		"its service is of another kind":     {func(h *hub) { h.challenge = `Bearer realm="ftp://hub/token"` }, "registry_realm_refused", 0},
		"its service is a path":              {func(h *hub) { h.challenge = `Bearer realm="/token"` }, "registry_realm_refused", 0},
		"its service comes with a login":     {func(h *hub) { h.challenge = `Bearer realm="https://a:b@hub/token"` }, "registry_realm_refused", 0},
		"it names none":                      {func(h *hub) { h.challenge = `Bearer service="hub"` }, "registry_no_tokens", 0},
		"it sends its clients elsewhere":     {func(h *hub) { h.first = respond(307, "") }, "registry_answer_invalid", 0},
		"its service sends them elsewhere":   {func(h *hub) { h.service = respond(307, "") }, "registry_answer_invalid", 1},
		"its service moved, for GET":         {func(h *hub) { h.service = respond(302, "") }, "registry_answer_invalid", 1},
		"the account is wrong":               {func(h *hub) { h.service = respond(401, "") }, "registry_login_refused", 1},
		"the account may nothing":            {func(h *hub) { h.service = respond(403, "") }, "registry_login_refused", 1},
		"its service is broken":              {func(h *hub) { h.service = respond(503, "") }, "registry_unreachable", 1},
		"it is no registry":                  {func(h *hub) { h.first = respond(404, "") }, "registry_answer_invalid", 0},
		"it is broken":                       {func(h *hub) { h.first = respond(502, "") }, "registry_unreachable", 0},
		"its service answers with the login": {func(h *hub) { h.service = respond(200, "") }, "registry_answer_invalid", 1},
		"its service gives no token":         {func(h *hub) { h.service = respondJSON(`{"token":""}`) }, "registry_answer_invalid", 1},
		"its token breaks a header":          {func(h *hub) { h.service = respondJSON(`{"token":"a\r\nX: planted"}`) }, "registry_answer_invalid", 1},
		"it answers without an end": {func(h *hub) {
			h.service = respondJSON(`{"token":"` + strings.Repeat("a", maxAnswer) + `"}`)
		}, "registry_unreachable", 1},
		"its certificate does not verify": {func(h *hub) { h.client = NewClient(h.client.now) }, "registry_unreachable", 0},
		"it speaks no TLS":                {func(h *hub) { h.record.Registry = strings.TrimPrefix(thief.URL, "http://") }, "registry_unreachable", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			c.change(h)
			if _, err := h.pull(t); broker.AsError(err).Code != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if shown := h.shown.Load(); shown != c.shown || leaked.Load() > 0 {
				t.Errorf("the login was shown %d times there, and %d times to a thief", shown, leaked.Load())
			}
		})
	}
}

func respondJSON(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
}

// A server that is no web server may answer with what it was sent.
func TestAnAnswerThatIsNoneIsNotRepeated(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte("planted-password\r\n\r\n"))
			_ = c.Close()
		}
	}()
	h := newHub(t)
	h.record.Registry, h.record.PlainHTTP = l.Addr().String(), true
	if _, err := h.pull(t); broker.AsError(err).Code != "registry_unreachable" {
		t.Errorf("%v", err)
	}
}

func TestARegistryWithoutTLSIsUsedOnlyWhereThatWasSaid(t *testing.T) {
	h := newHub(t)
	plain := httptest.NewServer(h)
	t.Cleanup(plain.Close)
	h.challenge, h.realm = `Bearer realm="`+plain.URL+`/token"`, plain.URL
	h.record.Registry, h.record.PlainHTTP = strings.TrimPrefix(plain.URL, "http://"), true
	if got, err := h.pull(t); err != nil || got.text != "opaque" {
		t.Errorf("%+v, %v", got, err)
	}
	if (broker.RegistryCredential{Registry: "docker.io"}).Base() != "https://registry-1.docker.io" {
		t.Error("docker.io is asked at its website")
	}
}

// A registry that names another token service than the one where the account was tried
// is not taken at its word: whoever speaks for it would be sent the account.
func TestTheAccountGoesToTheTokenServiceWhereItWasTried(t *testing.T) {
	other := newHub(t)
	h := newHub(t)
	h.trust(other.Server)
	h.challenge = `Bearer realm="` + other.URL + `/token"`
	if _, err := h.pull(t); broker.AsError(err).Code != "registry_realm_changed" || h.shown.Load()+other.shown.Load() > 0 {
		t.Errorf("%v; the login was shown %d times", err, h.shown.Load()+other.shown.Load())
	}
	h.realm = other.URL
	if _, err := h.pull(t); err != nil || other.shown.Load() != 1 {
		t.Errorf("set again: %v", err)
	}
	h.realm, h.challenge = h.URL, strings.Replace(newChallenge, "/token", "/token/v2", 1)
	h.service = nil
	h.first = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token/v2" {
			_, _ = fmt.Fprint(w, `{"token":"opaque"}`)
			return
		}
		w.Header().Set("WWW-Authenticate", strings.ReplaceAll(h.challenge, "%s", strings.ToUpper(h.URL)))
		w.WriteHeader(http.StatusUnauthorized)
	}
	if _, err := h.pull(t); err != nil {
		t.Errorf("another path of the same: %v", err)
	}
}

// Some services answer with what they were shown: that is no token for a node.
func TestATokenThatTellsThePasswordIsRefused(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for name, answer := range map[string]string{
		"the password":          password,
		"within":                "v1." + password + "~",
		"base64":                b64([]byte(password)),
		"base64 for URLs":       base64.RawURLEncoding.EncodeToString([]byte(password)),
		"as it was shown":       b64([]byte("pull:" + password)),
		"after something":       "v1_" + b64([]byte("1:pull:"+password+":x")),
		"twice":                 b64([]byte(`{"auth":"` + b64([]byte("pull:"+password)) + `"}`)),
		"in a JWT":              jwt(`{"sub":"` + password + `"}`),
		"in a JWT, as shown":    jwt(`{"sub":"` + b64([]byte("pull:"+password)) + `"}`),
		"in the JWT's own head": b64([]byte(`{"k":"`+password+`"}`)) + ".e30.c2ln",
	} {
		for _, member := range []string{"token", "access_token"} {
			h := newHub(t)
			h.service = respondJSON(fmt.Sprintf(`{%q:%q}`, member, answer))
			if got, err := h.pull(t); broker.AsError(err).Code != "registry_token_tells" || got.text != "" {
				t.Errorf("%s: %v", name, err)
			}
			a, err := NewAccount(h.record, password)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.client.Try(t.Context(), h.record, a); broker.AsError(err).Code != "registry_token_tells" {
				t.Errorf("%s, when it is set: %v", name, err)
			}
		}
	}
	h := newHub(t)
	h.service = respondJSON(fmt.Sprintf(`{"token":%q}`, strings.Repeat(b64([]byte("pull:planted-passwort")), 1000)))
	if _, err := h.pull(t); err != nil {
		t.Errorf("a token with another word in it: %v", err)
	}
}

// A service that has too much to do says when to come again, and the node is told.
func TestWhenToAskAgainIsPassedOn(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "999999": maxRetryAfter, now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute} {
		h := newHub(t)
		slow := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprint(w, password)
		}
		h.service = slow
		if _, err := h.pull(t); broker.AsError(err).Code != "registry_unreachable" || broker.AsError(err).RetryAfter != want {
			t.Errorf("%q: %v after %v", header, err, broker.AsError(err).RetryAfter)
		}
		h.first = slow
		if _, err := h.pull(t); broker.AsError(err).RetryAfter != want {
			t.Errorf("%q of the registry: %v", header, err)
		}
	}
}

// A certificate holds what its owner writes there.
func TestACertificateIsNotQuoted(t *testing.T) {
	h := newHub(t)
	h.record.Registry = strings.Replace(h.record.Registry, "127.0.0.1", "localhost", 1)
	if _, err := h.pull(t); broker.AsError(err).Code != "registry_unreachable" || strings.Contains(err.Error(), "example.com") || !strings.Contains(err.Error(), "another name") {
		t.Errorf("%v", err)
	}
}
