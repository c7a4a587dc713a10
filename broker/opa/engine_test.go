package opa

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

const allowed = `{"result": {"allow": true}}`

// stand stands for an Open Policy Agent.
type stand struct {
	*httptest.Server

	mu     sync.Mutex
	answer http.HandlerFunc
	got    []string // bodies
	head   http.Header
}

func newStand(t *testing.T) *stand {
	s := &stand{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/data/hostler/operations" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("it was asked %s %s (%v)", r.Method, r.URL, err)
		}
		s.mu.Lock()
		s.got, s.head = append(s.got, string(raw)), r.Header
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	s.says(http.StatusOK, allowed)
	return s
}

func (s *stand) does(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

func (s *stand) says(status int, body string) {
	s.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (s *stand) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// world is an engine with its stand-in and a clock.
type world struct {
	*testing.T
	opa    *stand
	engine *Engine
	now    time.Time
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	w := &world{T: t, opa: newStand(t), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.opa.Certificate().Raw})))
	c := Config{URL: w.opa.URL + "/v1/data/hostler/operations", CAFile: ca}
	for _, f := range change {
		f(&c)
	}
	var err error
	if w.engine, err = New(c, func() time.Time { return w.now }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.engine.Close() })
	return w
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) code(facts broker.OperationFacts) string {
	w.Helper()
	err := w.engine.Permit(w.Context(), facts)
	if err == nil {
		return ""
	}
	for _, secret := range []string{"127.0.0.1", "token-1", "sesame"} {
		if strings.Contains(err.Error(), secret) {
			w.Errorf("whoever is denied reads %s: %v", secret, err)
		}
	}
	return broker.AsError(err).Code
}

func facts() broker.OperationFacts {
	return broker.OperationFacts{Operation: "model.artifact.stage", Version: "v1", NodeCount: 2, Labels: map[string]string{"tier": "gold"}}
}

// The engine gets the facts, in the form of the REST API, and the token.
func TestTheEngineIsAskedWithTheFacts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "token-1\n")
	w := newWorld(t, func(c *Config) { c.TokenFile = file })
	if code := w.code(facts()); code != "" {
		t.Fatal(code)
	}
	want := `{"input":{"operation":"model.artifact.stage","version":"v1","backend":"","trigger":"","target_kind":"","node_count":2,"site":"","sku":"",` +
		`"labels":{"tier":"gold"},"artifact_sources":[],"hour":0,"minute":0}}`
	if w.opa.got[0] != want || w.opa.head.Get("Authorization") != "Bearer token-1" {
		t.Errorf("%s with %q", w.opa.got[0], w.opa.head.Get("Authorization"))
	}
	write(t, file, "two words")
	w.now = w.now.Add(time.Hour)
	if code := w.code(facts()); code != broker.PolicyEngineUnreachable || w.opa.asked() != 1 {
		t.Errorf("without a token: %q, asked %d times", code, w.opa.asked())
	}
}

// Only the one answer permits. The others are shapes of the REST API's documentation, and what might be taken
// for a yes.
func TestOnlyTheExactAnswerPermits(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{}`, // the document is undefined
		`{"result": {"allow": false}}`,
		`{"result": {}}`,
		`{"result": null}`,
		`{"result": {"allow": null}}`,
		`{"result": true}`,
		`{"result": [{"allow": true}]}`,
		`{"result": {"allow": "true"}}`,
		`{"result": {"allow": 1}}`,
		`{"result": {"allow": true, "deny": ["too large"]}}`,
		`{"result": {"allow": true}, "warning": {"code": "api_usage_warning", "message": "'input' key missing from the request"}}`,
		`{"decision_id": "b84cf736-213c-4932-a8e4-bb5c648f1b4d"}`,
		`{"decision_id": true, "result": {"allow": true}}`,
		`{"result": {"allow": false}, "result": {"allow": true}}`,
		`{"result": {"allow": false, "allow": true}}`,
		`{"Result": {"allow": true}}`,
		`{"result": {"Allow": true}}`,
		`{"allow": true}`,
		`[{"result": {"allow": true}}]`,
		`true`,
		`null`,
	} {
		w.opa.says(http.StatusOK, body)
		if code := w.code(facts()); code != broker.PolicyEngineDenied {
			t.Errorf("%s: %q", body, code)
		}
		if trouble, there := w.engine.Trouble(); there {
			t.Errorf("%s: an engine that denies is in trouble: %+v", body, trouble)
		}
	}
	for _, body := range []string{
		allowed, ` {"result" : {"allow":true}} ` + "\n",
		`{"decision_id": "b84cf736-213c-4932-a8e4-bb5c648f1b4d", "result": {"allow": true}}`,
	} {
		w.now = w.now.Add(time.Minute)
		w.opa.says(http.StatusOK, body)
		if code := w.code(facts()); code != "" {
			t.Errorf("%s: %q", body, code)
		}
	}
}

// What cannot be asked permits nothing, and tells the platform why.
func TestAnEngineThatIsAwayDenies(t *testing.T) {
	for name, c := range map[string]struct {
		does func(w *world)
		says string
	}{
		"an error":          {func(w *world) { w.opa.says(500, `{"code": "internal_error", "message": "sesame"}`) }, "it answers with status 500"},
		"no token":          {func(w *world) { w.opa.says(401, `{"code": "unauthorized"}`) }, "it answers with status 401"},
		"no content":        {func(w *world) { w.opa.says(204, "") }, "it answers with status 204"},
		"created":           {func(w *world) { w.opa.says(201, allowed) }, "it answers with status 201"},
		"a page":            {func(w *world) { w.opa.says(200, "<html>sesame</html>") }, "its answer is no JSON"},
		"two answers":       {func(w *world) { w.opa.says(200, allowed+allowed) }, "its answer is no JSON"},
		"nothing":           {func(w *world) { w.opa.says(200, "") }, "its answer is no JSON"},
		"much":              {func(w *world) { w.opa.says(200, allowed+strings.Repeat(" ", 1<<20)) }, "its answer has more than 65536 bytes"},
		"closed":            {func(w *world) { w.opa.Close() }, "connect: connection refused"},
		"a broken answer":   {func(w *world) { w.opa.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }) }, ""},
		"an unknown issuer": {func(w *world) { w.engine.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil }, "certificate"},
		"silence": {func(w *world) {
			w.opa.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, "it does not answer within 100ms"},
		"an endless answer": {func(w *world) {
			w.opa.does(func(rw http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := io.WriteString(rw, " "); err != nil {
						return
					}
				}
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				if c.Timeout = DefaultTimeout; name == "silence" {
					c.Timeout = leastTimeout
				}
			})
			c.does(w)
			if code := w.code(facts()); code != broker.PolicyEngineUnreachable {
				t.Errorf("%q", code)
			}
			trouble, there := w.engine.Trouble()
			if !there || !strings.Contains(trouble.Why, c.says) || !strings.HasPrefix(trouble.Why, "the policy engine at 127.0.0.1:") || strings.Contains(trouble.Why, "sesame") {
				t.Errorf("%+v, want %s", trouble, c.says)
			}
		})
	}
}

// A redirect is no answer: the facts and the token would go to another host.
func TestARedirectIsNotFollowed(t *testing.T) {
	w, other := newWorld(t), newStand(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		w.opa.does(func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, other.URL+"/v1/data/hostler/operations", status)
		})
		if code := w.code(facts()); code != broker.PolicyEngineUnreachable || other.asked() != 0 {
			t.Errorf("%d: %q, and the other host was asked %d times", status, code, other.asked())
		}
	}
}

// An answer holds for the facts that were asked about, and for a moment. A denial is not kept.
func TestAnAnswerHoldsForItsFactsAlone(t *testing.T) {
	w := newWorld(t)
	ask := func(f broker.OperationFacts, want string, requests int) {
		t.Helper()
		if code := w.code(f); code != want || w.opa.asked() != requests {
			t.Errorf("%+v: %q after %d requests, want %q after %d", f, code, w.opa.asked(), want, requests)
		}
	}
	ask(facts(), "", 1)
	w.opa.says(http.StatusOK, `{"result": {"allow": false}}`)
	ask(facts(), "", 1)
	requests := 1
	for _, change := range []func(*broker.OperationFacts){
		func(f *broker.OperationFacts) { f.Operation = "gpu.host.bootstrap" },
		func(f *broker.OperationFacts) { f.Version = "v2" },
		func(f *broker.OperationFacts) { f.NodeCount++ },
		func(f *broker.OperationFacts) { f.Labels = map[string]string{"tier": "silver"} },
		func(f *broker.OperationFacts) { f.ArtifactSources = []string{"s3:models"} },
		func(f *broker.OperationFacts) { f.Minute++ },
	} {
		f := facts()
		change(&f)
		requests++
		ask(f, broker.PolicyEngineDenied, requests)
	}
	w.now = w.now.Add(holds)
	ask(facts(), broker.PolicyEngineDenied, requests+1)
	ask(facts(), broker.PolicyEngineDenied, requests+2)
	w.opa.says(http.StatusOK, allowed)
	ask(facts(), "", requests+3)
	w.now = w.now.Add(-time.Minute) // the clock was set back
	w.opa.says(http.StatusOK, `{}`)
	ask(facts(), broker.PolicyEngineDenied, requests+4)
}

// Trouble ends with the next answer, and is old after an hour in which nobody asked.
func TestTroubleEndsWithAnAnswer(t *testing.T) {
	w := newWorld(t)
	begun := w.now
	w.opa.says(http.StatusBadGateway, "")
	for range 2 {
		w.code(facts())
		w.now = w.now.Add(time.Minute)
	}
	if trouble, there := w.engine.Trouble(); !there || !trouble.Since.Equal(begun) || !trouble.Last.Equal(begun.Add(time.Minute)) {
		t.Errorf("%+v %v", trouble, there)
	}
	w.now = w.now.Add(toldFor)
	if trouble, there := w.engine.Trouble(); there {
		t.Errorf("an hour later: %+v", trouble)
	}
	w.code(facts())
	w.opa.says(http.StatusOK, `{}`)
	w.code(facts())
	if trouble, there := w.engine.Trouble(); there {
		t.Errorf("it answers: %+v", trouble)
	}
	if _, there := (*Engine)(nil).Trouble(); there {
		t.Error("there is no engine, and it is in trouble")
	}
}

// Whoever asks and goes says nothing about the engine.
func TestACancelledQuestionIsNoTrouble(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.opa.does(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if err := w.engine.Permit(ctx, facts()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if trouble, there := w.engine.Trouble(); there {
		t.Errorf("%+v", trouble)
	}
}

func TestAnEngineKeepsABoundedNumberOfAnswers(t *testing.T) {
	w := newWorld(t)
	for i := range maxKept {
		w.engine.allowed[string(rune(i))] = w.now
	}
	if code := w.code(facts()); code != "" || len(w.engine.allowed) != 1 {
		t.Errorf("%q, it keeps %d", code, len(w.engine.allowed))
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), "")
	for _, c := range []struct {
		c    Config
		says string // empty: accepted
	}{
		{Config{URL: "https://opa.example:8181/v1/data/hostler/operations"}, ""},
		{Config{URL: "http://127.0.0.1:8181/v1/data/hostler", Timeout: time.Second}, ""},
		{Config{URL: "http://[::1]:8181/v1/data/hostler"}, ""},
		{Config{URL: "http://opa.example/v1/data/hostler"}, "loopback interface alone"},
		{Config{URL: "http://127.0.0.1.example/v1/data/hostler"}, "loopback interface alone"},
		{Config{}, "url must be https://"},
		{Config{URL: "ftp://opa.example/v1/data/x"}, "url must be"},
		{Config{URL: "https://user:pass@opa.example/v1/data/x"}, "url must be"},
		{Config{URL: "https://opa.example/v1/data/x?pretty"}, "url must be"},
		{Config{URL: "https://opa.example/v1/data/x#y"}, "url must be"},
		{Config{URL: "https://opa.example/v1/query"}, "the path of url must be /v1/data/"},
		{Config{URL: "https://opa.example/v1/data/"}, "the path of url"},
		{Config{URL: "https://opa.example/v1/data/../policies/x"}, "the path of url"},
		{Config{URL: "https://opa.example/v1/data/x", Timeout: time.Millisecond}, "timeout must be between 100ms and 30s"},
		{Config{URL: "https://opa.example/v1/data/x", Timeout: time.Minute}, "timeout must be"},
		{Config{URL: "https://opa.example/v1/data/x", CAFile: dir + "/none"}, "ca_file cannot be read"},
		{Config{URL: "https://opa.example/v1/data/x", CAFile: dir + "/empty"}, "has no certificate"},
		{Config{URL: "https://opa.example/v1/data/x", TokenFile: dir + "/empty"}, "must have one word"},
		{Config{URL: "https://opa.example/v1/data/x", TokenFile: dir}, "token_file cannot be read"},
	} {
		err := c.c.Check()
		if (err == nil) != (c.says == "") || err != nil && (broker.AsError(err).Code != "config_invalid" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.says)
		}
	}
	if err := (*Config)(nil).Check(); err != nil {
		t.Error(err)
	}
}
