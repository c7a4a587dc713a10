package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// described is the part of a description that the tests look at.
type described struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		RequestBody *struct{ Content map[string]any }
		Responses   map[string]struct{ Content map[string]any }
	}
	Components struct{ Schemas map[string]any }
}

func describe(t *testing.T, b *servertest.Broker, document string) (spec described, raw []byte) {
	t.Helper()
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+document, nil)
	if err := json.Unmarshal(a.Body, &spec); err != nil {
		t.Fatalf("%s: %d, %v", document, a.Status, err)
	}
	return spec, a.Body
}

// TestEveryRefusalIsDeclared sends each operation requests that are refused before the handler, and
// names of missing things, and checks each status against the statuses declared in the description.
func TestEveryRefusalIsDeclared(t *testing.T) {
	b := servertest.Start(t)
	spec, _ := describe(t, b, "/openapi.json")
	large := `{"reason":"` + strings.Repeat("r", 2<<20) + `"}`
	for _, r := range adminapi.Routes() {
		b.Advance(5 * time.Second) // so that the token's rate limit does not refuse the request
		op := spec.Paths[api.Path(r.Path)][strings.ToLower(r.Method)]
		path, name := filled(r.Path, "n-none"), r.Method+" "+r.Path
		answers := func(what string, want int, a servertest.Answer) {
			t.Helper()
			declared, ok := op.Responses[strconv.Itoa(a.Status)]
			if want != 0 && a.Status != want {
				t.Errorf("%s %s: %d %s, want %d", name, what, a.Status, a.Code(), want)
			}
			of, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
			for is := range declared.Content {
				if is, _, _ = strings.Cut(is, ";"); is == of {
					return
				}
			}
			t.Errorf("%s %s: %d with %s is not declared (%t)", name, what, a.Status, of, ok)
		}
		only := path
		if strings.HasSuffix(r.Path, "/events") {
			only += "?follow=false" // else the stream does not end
		}
		answers("as it is", 0, b.Ask(t, b.Token, r.Method, only, body(r.Method)))
		answers("that is not text", 400, b.Ask(t, b.Token, r.Method, path+"?site=%00", body(r.Method)))
		answers("with an unknown parameter", 422, b.Ask(t, b.Token, r.Method, path+"?color=red", body(r.Method)))
		answers("without a token", 401, b.Ask(t, "", r.Method, path, body(r.Method)))
		if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
			continue
		}
		answers("that is not JSON", 400, b.Ask(t, b.Token, r.Method, path, `{`))
		answers("that is too large", 413, b.Ask(t, b.Token, r.Method, path, large))
		answers("of another content type", 415, b.Ask(t, b.Token, r.Method, path, strings.NewReader("{}")))
		if _, ok := op.Responses["408"]; !ok {
			t.Errorf("%s does not declare 408, for a body that does not come", name)
		}
	}
}

// TestOpenAPI30SaysTheSameWithoutWhatIsNew is about generators that cannot read OpenAPI 3.1.
func TestOpenAPI30SaysTheSameWithoutWhatIsNew(t *testing.T) {
	b := servertest.Start(t)
	now, _ := describe(t, b, "/openapi.json")
	old, raw := describe(t, b, "/openapi-3.0.json")
	if old.OpenAPI != "3.0.3" || len(old.Components.Schemas) != len(now.Components.Schemas) {
		t.Fatalf("it is OpenAPI %s with %d schemas, want 3.0.3 with %d", old.OpenAPI, len(old.Components.Schemas), len(now.Components.Schemas))
	}
	for path, methods := range now.Paths {
		for method, op := range methods {
			if got := old.Paths[path][method].Responses; len(got) != len(op.Responses) {
				t.Errorf("%s %s has %d answers, want %d", method, path, len(got), len(op.Responses))
			}
		}
	}
	var whole any
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, value any)
	walk = func(at string, value any) {
		switch v := value.(type) {
		case []any:
			for i, item := range v {
				walk(at+"/"+strconv.Itoa(i), item)
			}
		case map[string]any:
			for key, item := range v {
				walk(at+"/"+key, item)
			}
			_, isRef := v["$ref"].(string)
			_, isList := v["type"].([]any)
			_, isNumber := v["exclusiveMinimum"].(float64)
			if isRef && len(v) > 1 || isList || isNumber || v["type"] == "null" || v["format"] == "base64" {
				t.Errorf("%s is no schema of 3.0: %v", at, v)
			}
			if strings.HasSuffix(at, "/properties") {
				return // its keys are names
			}
			for _, key := range []string{"$defs", "const", "contentEncoding", "contentMediaType", "dependentRequired", "examples", "if", "patternDescription", "prefixItems"} {
				if _, ok := v[key]; ok {
					t.Errorf("%s has %s, which 3.0 has not", at, key)
				}
			}
		}
	}
	walk("", whole)
	var vlan struct {
		Components struct {
			Schemas struct {
				SiteProfile struct {
					Properties map[string]struct {
						Type     string
						Nullable bool
					}
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &vlan); err != nil {
		t.Fatal(err)
	}
	if got := vlan.Components.Schemas.SiteProfile.Properties["pxe_vlan_vid"]; got.Type != "integer" || !got.Nullable {
		t.Errorf("pxe_vlan_vid is %+v, want an integer that may be null", got)
	}
}

// TestAKnownPathTellsWhichMethodsItTakes walks both listeners with each method that a path does not
// take.
func TestAKnownPathTellsWhichMethodsItTakes(t *testing.T) {
	b := servertest.Start(t)
	every := []string{"DELETE", "GET", "OPTIONS", "PATCH", "POST", "PROPFIND", "PUT"}
	check := func(what string, a servertest.Answer, takes []string) {
		t.Helper()
		want := slices.Clone(takes)
		if slices.Contains(want, "GET") {
			want = append(want, "HEAD")
		}
		slices.Sort(want)
		if got := a.Header.Get("Allow"); a.Status != http.StatusMethodNotAllowed || a.Code() != "method_not_allowed" || got != strings.Join(want, ", ") {
			t.Errorf("%s: %d %s with Allow %q, want 405 with %q", what, a.Status, a.Body, got, want)
		}
	}
	for _, r := range adminapi.Routes() {
		b.Advance(5 * time.Second)
		path := filled(r.Path, "n-none")
		takes := methodsOf(path)
		for _, m := range every {
			if !slices.Contains(takes, m) {
				check(m+" "+path, b.Ask(t, b.Token, m, path, nil), takes)
			}
		}
	}
	if a := b.Ask(t, "", http.MethodPatch, "/nodes", nil); a.Status != http.StatusUnauthorized {
		t.Errorf("a method that a path has not tells %d to who has no token", a.Status)
	}
	for _, path := range []string{"/openapi.json", "/openapi-3.0.json", "/docs", "/metrics", "/healthz", "/readyz"} {
		check("POST "+path, b.Ask(t, "", http.MethodPost, b.OperatorURL()+path, nil), []string{"GET"})
	}

	for path, takes := range map[string][]string{
		"/internal/v1/nodes/enroll":                                      {"POST"},
		"/internal/v1/nodes/n-1/renew":                                   {"POST"},
		"/internal/v1/nodes/n-1/tasks/wait":                              {"GET"},
		"/internal/v1/packages/sha256/" + strings.Repeat("0", 64) + "?x": {"GET"},
	} {
		for _, m := range every {
			if !slices.Contains(takes, m) {
				check(m+" "+path, b.Ask(t, "", m, b.AgentURL()+path, nil), takes)
			}
		}
	}
	if a := b.Ask(t, "", http.MethodGet, b.AgentURL()+"/internal/v1/nothing", nil); a.Status != http.StatusNotFound {
		t.Errorf("a path of the nodes' listener without a route answers %d %s", a.Status, a.Body)
	}
}

// methodsOf are the methods of all routes that match a path: /onboardings/plan matches an
// onboarding's path too.
func methodsOf(path string) (methods []string) {
	parts := strings.Split(path, "/")
	for _, r := range adminapi.Routes() {
		pattern := strings.Split(r.Path, "/")
		if len(pattern) == len(parts) {
			for i, part := range pattern {
				if strings.HasPrefix(part, "{") {
					pattern[i] = parts[i]
				}
			}
		}
		if slices.Equal(pattern, parts) && !slices.Contains(methods, r.Method) {
			methods = append(methods, r.Method)
		}
	}
	return methods
}
