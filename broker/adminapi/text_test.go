package adminapi_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/server/servertest"
)

// notText are byte sequences that PostgreSQL cannot store as text, escaped for a URL.
var notText = []string{"%00", "a%00b", "%ff", "%C3%28", "%ED%A0%80"}

// inPath puts a value into each parameter of a path in turn; other fills the rest.
func inPath(path, value string, other func(string) string) (targets []string) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			with := append([]string{}, parts...)
			with[i] = value
			targets = append(targets, other(strings.Join(with, "/")))
		}
	}
	return targets
}

// TestWhatIsNotTextIsRefusedOnEveryRoute walks both listeners' tables with bytes in path,
// query, header and body that PostgreSQL cannot keep.
func TestWhatIsNotTextIsRefusedOnEveryRoute(t *testing.T) {
	b := servertest.Start(t, over(t, "postgres")...)
	tried := 0
	refused := func(what string, status int, code, want string) {
		tried++
		if status != http.StatusBadRequest || code != want {
			t.Errorf("%s: %d %s, want 400 %s", what, status, code, want)
		}
	}
	operator := func(path string) string { return filled(path, "n-none") }
	for _, r := range adminapi.Routes() {
		for _, bytes := range notText {
			for _, target := range append(inPath(r.Path, bytes, operator), operator(r.Path)+"?site="+bytes, operator(r.Path)+"?"+bytes+"=x") {
				a := b.Ask(t, b.Token, r.Method, target, body(r.Method))
				refused(r.Method+" "+target, a.Status, a.Code(), "request_not_text")
			}
		}
		a := b.Ask(t, b.Token, r.Method, operator(r.Path)+"?site=%zz", body(r.Method))
		refused(r.Method+" "+r.Path+" with a query that cannot be parsed", a.Status, a.Code(), "request_not_text")
		if r.Method == http.MethodGet {
			continue
		}
		a = b.AskOnce(t, "k\xff", b.Token, r.Method, operator(r.Path), body(r.Method))
		refused(r.Method+" "+r.Path+" with a key that is not UTF-8", a.Status, a.Code(), "request_not_text")
	}

	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.Roots, MinVersion: tls.VersionTLS13}}}
	defer stranger.CloseIdleConnections()
	ask := func(method, path string) (int, string) {
		if below, ok := strings.CutPrefix(path, "/internal/v1/nodes/"+n.NodeID); ok {
			status, code, err := n.Try(method, below)
			if err != nil {
				t.Fatal(err)
			}
			return status, code
		}
		req, err := http.NewRequestWithContext(t.Context(), method, b.AgentURL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := stranger.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		var p api.Problem
		if err != nil || json.Unmarshal(raw, &p) != nil {
			t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, raw, err)
		}
		return res.StatusCode, p.Code
	}
	agent := strings.NewReplacer("{id}", n.NodeID, "{task_id}", "t-one", "{session_id}", "ts-nonenone", "{digest}", strings.Repeat("0", 64)).Replace
	for _, r := range nodeapi.Routes() {
		method, path, _ := strings.Cut(r, " ")
		for _, bytes := range notText {
			for _, target := range append(inPath(path, bytes, agent), agent(path)+"?lanes="+bytes) {
				status, code := ask(method, target)
				refused(method+" "+target, status, code, "request_not_text")
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d requests were tried", tried)
	}
}

// TestANULInABodyIsRefused is about every operator route that takes JSON: one text of an otherwise
// valid body contains a NUL.
func TestANULInABodyIsRefused(t *testing.T) {
	b := servertest.Start(t, over(t, "postgres")...)
	takes := takeJSON(t, b)
	if len(takes) < 30 {
		t.Errorf("only %d routes take JSON", len(takes))
	}
	for _, r := range adminapi.Routes() {
		b.Advance(time.Second) // so that the token's rate limit does not refuse the request
		if !takes[r.Method+" "+r.Path] {
			continue
		}
		for _, sent := range []string{`{"reason":"a\u0000b"}`, `{"a\u0000b":"reason"}`, `{"params":{"x":["\u0000"]}}`} {
			a := b.Ask(t, b.Token, r.Method, filled(r.Path, "n-none"), sent)
			if a.Status != http.StatusBadRequest || a.Code() != "malformed" {
				t.Errorf("%s %s with %s: %d %s, want 400 malformed", r.Method, r.Path, sent, a.Status, a.Body)
			}
		}
	}
}

// takeJSON are the routes with a JSON body, by the description.
func takeJSON(t *testing.T, b *servertest.Broker) map[string]bool {
	t.Helper()
	var spec struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]any
			} `json:"requestBody"`
		}
	}
	if err := json.Unmarshal(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil).Body, &spec); err != nil {
		t.Fatal(err)
	}
	takes := map[string]bool{}
	for path, methods := range spec.Paths {
		for method, op := range methods {
			if _, ok := op.RequestBody.Content["application/json"]; ok {
				takes[strings.ToUpper(method)+" "+strings.TrimPrefix(strings.TrimPrefix(path, api.Prefix), api.TenantPrefix)] = true
			}
		}
	}
	return takes
}
