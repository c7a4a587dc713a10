package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// Any body from an administrator is accepted or refused with a code, and never answered with an
// internal error. The routes come from the API's own description.
func FuzzOperatorBodies(f *testing.F) {
	b := servertest.Start(f)
	b.NewNode(f, api.NodeCreate{Hostname: "h1"}).Settle(f)
	var described struct {
		Paths map[string]map[string]struct {
			RequestBody *json.RawMessage `json:"requestBody"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(b.Ask(f, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil).Body, &described); err != nil {
		f.Fatal(err)
	}
	var routes []string
	names := strings.NewReplacer("{node}", "h1", "{action}", "drain", "{task}", "t-1", "{id}", "t-1", "{digest}", "sha256:00", "{name}", "ann", api.Prefix, "", api.TenantPrefix, "")
	for path, methods := range described.Paths {
		for method, op := range methods {
			if op.RequestBody != nil {
				routes = append(routes, strings.ToUpper(method)+" "+names.Replace(path))
			}
		}
	}
	slices.Sort(routes)
	if len(routes) < 8 {
		f.Fatalf("only %q take a body", routes)
	}
	for _, seed := range []string{
		"", "{}", "[]", "null", `"x"`, `{"type":"node.drain","params":{}}`, `{"hostname":"h2","bootstrap":"command"}`, `{"name":"ann","role":"viewer","ttl_seconds":3600}`,
		`{"labels":{"a":"b"},"reason":"x"}`, `{"use":"task","reason":"x"}`, `{"policy":{"scratch":["/share*"]}}`, `{"ttl_seconds":1e309}`, `{"type":"node.drain","type":"node.uninstall"}`,
		strings.Repeat("[", 200), "{\"reason\":\"\xff\"}", `{"reason":"\u0000\u202e\ud800"}`, `{"params":{"a":{"b":[[[[]]]]}},"version":-1}`,
	} {
		for i := range routes {
			f.Add(i, seed)
		}
	}
	f.Fuzz(func(t *testing.T, route int, body string) {
		if route < 0 {
			route = -(route + 1)
		}
		b.Advance(time.Second) // no token asks too often
		method, path, _ := strings.Cut(routes[route%len(routes)], " ")
		a := b.Ask(t, b.Token, method, path, body)
		if a.Status >= 500 || a.Status/100 != 2 && a.Code() == "" {
			t.Errorf("%s %s: %d %s to %q", method, path, a.Status, a.Body, body)
		}
	})
}
