package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestBodiesAreReadStrictly(t *testing.T) {
	b := servertest.Start(t)
	deep := strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)
	for name, row := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"unknown key":     {`{"hostname":"h","color":"red"}`, 422, "invalid_request"},
		"wrong case":      {`{"Hostname":"h"}`, 422, "invalid_request"},
		"duplicate key":   {`{"hostname":"a","hostname":"b"}`, 400, "malformed"},
		"trailing data":   {`{"hostname":"h"} {}`, 400, "malformed"},
		"no JSON":         {`hostname=h`, 400, "malformed"},
		"wrong type":      {`{"hostname":7}`, 422, "invalid_request"},
		"missing":         {`{}`, 422, "invalid_request"},
		"nothing":         {``, 400, "malformed"},
		"too deep":        {`{"hostname":"h","labels":` + deep + `}`, 400, "malformed"},
		"too large":       {`{"hostname":"` + strings.Repeat("h", 2<<20) + `"}`, 413, "too_large"},
		"invalid UTF-8":   {"{\"hostname\":\"\xff\"}", 400, "malformed"},
		"bad hostname":    {`{"hostname":"h; reboot"}`, 422, "node_invalid"},
		"escape sequence": {`{"hostname":"h\u001b[31m"}`, 422, "node_invalid"},
		"bad site":        {`{"hostname":"h","site":"../x"}`, 422, "node_invalid"},
		"bad label":       {`{"hostname":"h","labels":{"a":"<script>"}}`, 422, "label_invalid"},
		"too long a life": {`{"hostname":"h","ttl_seconds":99999999}`, 422, "invalid_request"},
		"mirror":          {`{"hostname":"h","package_urls":["http://m/x.deb"]}`, 409, "agent_release_missing"},
	} {
		a := b.Ask(t, b.Token, http.MethodPost, "/nodes", row.body)
		if a.Status != row.status || a.Code() != row.code {
			t.Errorf("%s: %d %s, want %d %s (%.300s)", name, a.Status, a.Code(), row.status, row.code, a.Body)
		}
		if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: the content type is %s", name, got)
		}
		if strings.ContainsRune(string(a.Body), 0x1b) || strings.Contains(string(a.Body), "<") {
			t.Errorf("%s: what was sent comes back as it was: %s", name, a.Body)
		}
	}
	for _, path := range []string{"/nodes?color=red", "/tasks?limit=-1", "/tasks?limit=x", "/nodes?status=gone", "/tasks?status=gone", "/audit?from=yesterday", "/audit?cursor=x", "/audit?cursor=-5", "/audit?cursor=0", "/nodes?label=x"} {
		if a := b.Ask(t, b.Token, http.MethodGet, path, nil); a.Status != 422 {
			t.Errorf("GET %s: %d %s, want 422", path, a.Status, a.Body)
		}
	}
	if nodes := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil); len(nodes.Items) != 0 {
		t.Errorf("%d nodes were made by requests that were refused", len(nodes.Items))
	}
}

func TestEveryAnswerKeepsABrowserFromMisreadingIt(t *testing.T) {
	b := servertest.Start(t)
	for _, path := range []string{"/nodes", "/nodes/none", "/no/route"} {
		for _, token := range []string{b.Token, ""} {
			checkHeaders(t, path, b.Ask(t, token, http.MethodGet, path, nil))
		}
	}
	for _, path := range []string{"/openapi.json", "/openapi-3.0.json", "/docs"} {
		a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+path, nil)
		checkHeaders(t, path, a)
		if strings.Contains(string(a.Body), "<script") {
			t.Errorf("%s runs a script", path)
		}
	}
}

func checkHeaders(t *testing.T, path string, a servertest.Answer) {
	t.Helper()
	for header, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
	} {
		if got := a.Header.Get(header); got != want {
			t.Errorf("%s: %s is %q, want %q", path, header, got, want)
		}
	}
	if !strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s has the policy %q", path, a.Header.Get("Content-Security-Policy"))
	}
}

func TestTheDescriptionNamesEveryRoute(t *testing.T) {
	b := servertest.Start(t)
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Description string
		}
		Components struct {
			Schemas map[string]any `json:"schemas"`
		}
	}
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil)
	if err := json.Unmarshal(a.Body, &spec); err != nil || !strings.HasPrefix(spec.OpenAPI, "3.1") {
		t.Fatalf("it is no OpenAPI 3.1: %v, %s", err, spec.OpenAPI)
	}
	docs := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/docs", nil)
	for _, r := range adminapi.Routes() {
		op, ok := spec.Paths[api.Path(r.Path)][strings.ToLower(r.Method)]
		if !ok || op.OperationID == "" || !strings.Contains(op.Description, r.Access) {
			t.Errorf("%s %s is described as %+v", r.Method, r.Path, op)
		}
		if !strings.Contains(string(docs.Body), api.Path(r.Path)+"<") {
			t.Errorf("%s is not in /docs", r.Path)
		}
	}
	for ref := range referenced(a.Body) {
		if _, ok := spec.Components.Schemas[ref]; !ok {
			t.Errorf("schema %s is referred to and not there", ref)
		}
	}
}

func referenced(raw []byte) map[string]bool {
	out := map[string]bool{}
	for i, part := range strings.Split(string(raw), `"#/components/schemas/`) {
		if name, _, ok := strings.Cut(part, `"`); ok && i > 0 {
			out[name] = true
		}
	}
	return out
}
