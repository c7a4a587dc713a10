package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

const testToken = "hso_test"

// brokenOff aborts an answer at its place.
const brokenOff = "it breaks off\n"

// fakeBroker speaks the operator API over real TLS. A script sets its answers, so that it can give
// answers that no honest broker with honest nodes would give.
type fakeBroker struct {
	*httptest.Server
	authority *pkitest.Authority

	mu      sync.Mutex
	answers map[string]*canned // by method and path of the route
	got     []request
	frozen  string           // the frozen sites named in every answer to a GET
	attach  http.HandlerFunc // of terminals
	others  string           // the body of a GET without an answer of its own; empty: not found
}

type canned struct {
	status int
	bodies []string
}

type request struct{ line, body string }

func (r request) String() string { return fmt.Sprintf("%s %s", r.line, r.body) }

func newFakeBroker(t testing.TB) *fakeBroker {
	b := &fakeBroker{authority: pkitest.NewAt(t, testNow), answers: map[string]*canned{}}
	b.Server = httptest.NewUnstartedServer(b)
	b.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{b.authority.Server}}
	b.StartTLS()
	t.Cleanup(b.Close)
	b.answer("GET /expiry", http.StatusOK, `{"items":[]}`)
	b.answer("GET /maas-sites", http.StatusOK, `{"items":[]}`)
	b.answer("GET /whoami", http.StatusOK, `{"name":"alice","role":"operator","created_at":"2026-02-01T00:00:00Z"}`)
	types := api.TaskTypeList{}
	for _, typ := range taskcatalog.All() {
		r := typeResource(typ)
		types.Items = append(types.Items, r)
		b.answer("GET /task-types/"+typ.Name, http.StatusOK, encoded(r))
		b.answer("GET /task-types/"+typ.ID(), http.StatusOK, encoded(r))
	}
	b.answer("GET /task-types", http.StatusOK, encoded(types))
	return b
}

func encoded(v any) string {
	raw, err := taskcatalog.Encode(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func typeResource(t taskcatalog.Type) api.TaskType {
	return api.TaskType{
		Name: t.Name, Version: t.Version, Summary: t.Summary, Class: string(t.Class), Lane: string(t.Lane),
		DeadlineSeconds: int64(t.Deadline.Seconds()), StartSeconds: int64(t.Class.StartWindow().Seconds()),
		Capabilities: t.Capabilities, BrokerFills: t.BrokerFills, Example: json.RawMessage(t.Example),
		ParamsSchema: t.ParamsSchema().Text(), ResultSchema: t.ResultSchema().Text(),
	}
}

// answer sets the answer to a request; several bodies are used one after the other. A body that is a
// problem has the problem's status.
func (b *fakeBroker) answer(line string, status int, bodies ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[line] = &canned{status, bodies}
}

func (b *fakeBroker) requests() []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]request(nil), b.got...)
}

// writeClient writes the client file and the token, as a broker would.
func (b *fakeBroker) writeClient(dir string) error {
	if err := clientfile.WritePrivate(filepath.Join(dir, "token"), []byte(testToken+"\n")); err != nil {
		return err
	}
	f := clientfile.File{Broker: b.URL, CA: string(pki.MarshalCerts(b.authority.Root())), TokenFile: "token"}
	return f.Write(filepath.Join(dir, "client.yaml"))
}

func (b *fakeBroker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.attach != nil && strings.HasSuffix(r.URL.Path, "/attach") {
		b.attach(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	line := r.Method + " " + strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), api.Prefix), api.TenantPrefix)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, request{line + querySuffix(r), string(body)})
	if b.frozen != "" && r.Method == http.MethodGet {
		w.Header().Set(api.HeaderFrozen, b.frozen)
	}
	switch a := b.answers[line]; {
	case r.Header.Get("Authorization") != "Bearer "+testToken:
		b.problem(w, http.StatusUnauthorized, "token_unknown", "cannot let you in: the token is not known (ask for a new one)")
	case a == nil && b.others != "" && r.Method == http.MethodGet:
		_, _ = io.WriteString(w, b.others)
	case a == nil:
		b.problem(w, http.StatusNotFound, "route_not_found", "cannot answer "+line)
	default:
		text := a.bodies[0]
		if len(a.bodies) > 1 {
			a.bodies = a.bodies[1:]
		}
		status := a.status
		var p api.Problem
		if json.Unmarshal([]byte(text), &p) == nil && p.Code != "" && p.Status >= 400 {
			status = p.Status
		}
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		text, broken := strings.CutSuffix(text, brokenOff)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		if broken {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
}

// querySuffix is the query without the parameters of paging.
func querySuffix(r *http.Request) string {
	q := r.URL.Query()
	q.Del("limit")
	q.Del("wait")
	q.Del("progress")
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (b *fakeBroker) problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, encoded(api.Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}))
}
