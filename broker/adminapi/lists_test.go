package adminapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// answerSchema is the part of the schema of an answer that tells a list from a single thing.
type answerSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Required   []string
	Properties map[string]struct{ Type any }
}

func (s answerSchema) requires(name, kind string) bool {
	for _, r := range s.Required {
		if r == name {
			return s.Properties[name].Type == kind
		}
	}
	return false
}

// TestEveryListHasItemsAndNext holds the one shape of lists against the description: {items, next},
// both always there. The id of an operation that lists begins with list-.
func TestEveryListHasItemsAndNext(t *testing.T) {
	b := servertest.Start(t)
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]struct {
				Content map[string]struct{ Schema answerSchema }
			}
		}
		Components struct{ Schemas map[string]answerSchema }
	}
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil)
	if err := json.Unmarshal(a.Body, &spec); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for path, methods := range spec.Paths {
		for method, op := range methods {
			answer := op.Responses["200"].Content["application/json"].Schema
			if answer.Ref != "" {
				answer = spec.Components.Schemas[strings.TrimPrefix(answer.Ref, "#/components/schemas/")]
			}
			_, hasItems := answer.Properties["items"]
			isList := hasItems || strings.HasPrefix(op.OperationID, "list-") || answer.Type == "array"
			if !isList {
				continue
			}
			lists++
			if !answer.requires("items", "array") || !answer.requires("next", "string") {
				t.Errorf("%s %s (%s) is no list of the form {items, next}: it requires %v", method, path, op.OperationID, answer.Required)
			}
		}
	}
	if lists < 28 {
		t.Errorf("found %d lists, want at least the 28 that there were", lists)
	}
}

// TestAnEmptyListIsThere asks for every list that names nothing else: items is [], never null, and
// next is there.
func TestAnEmptyListIsThere(t *testing.T) {
	b := servertest.Start(t)
	found := 0
	for _, r := range adminapi.Routes() {
		if r.Method != http.MethodGet || strings.Contains(r.Path, "{") {
			continue
		}
		b.Advance(5 * time.Second)
		path := r.Path
		if path == "/events" {
			path += "?follow=false"
		}
		a := b.Ask(t, b.Token, r.Method, path, nil)
		var got map[string]json.RawMessage
		if json.Unmarshal(a.Body, &got) != nil || got["items"] == nil {
			continue
		}
		found++
		if a.Status != http.StatusOK || got["items"][0] != '[' || string(got["next"]) != `""` {
			t.Errorf("GET %s%s: %d %s", api.Prefix, r.Path, a.Status, a.Body)
		}
	}
	if found < 19 {
		t.Errorf("found %d lists, want at least the 19 that there were", found)
	}
}

// TestPagesOfOneItemAreTheWholeList reads every list that names nothing else as a whole, and then
// item by item, by limit and cursor.
func TestPagesOfOneItemAreTheWholeList(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1", "dc2")
	for _, id := range []string{"a", "b", "c"} {
		servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h" + id, Site: "dc1"})
		servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", `{"id":"`+id+`","gpu_vendor":"amd","gpu_model":"MI300X","gpu_count":8,"nics":["eno1"]}`)
		b.NewToken(t, api.TokenCreate{Name: "t-" + id, Role: "viewer"})
	}
	type page struct {
		Items []json.RawMessage
		Next  string
	}
	several := map[string]bool{}
	for _, r := range adminapi.Routes() {
		if r.Method != http.MethodGet || strings.Contains(r.Path, "{") || r.Path == "/events" || r.Path == "/audit/export" {
			continue
		}
		b.Advance(5 * time.Second)
		var whole page
		if a := b.Ask(t, b.Token, http.MethodGet, r.Path, nil); json.Unmarshal(a.Body, &whole) != nil || len(whole.Items) < 2 {
			continue
		}
		several[r.Path] = true
		next := ""
		for i, want := range whole.Items {
			b.Advance(5 * time.Second)
			got := servertest.Must[page](t, b, http.MethodGet, r.Path+"?limit=1&cursor="+url.QueryEscape(next), nil)
			if len(got.Items) != 1 || lasting(t, got.Items[0]) != lasting(t, want) || (got.Next == "") != (i == len(whole.Items)-1) {
				t.Errorf("GET %s: page %d is %s, next %q; want %s", r.Path, i, got.Items, got.Next, want)
				break
			}
			next = got.Next
		}
	}
	for _, path := range []string{"/nodes", "/maas-sites", "/skus", "/tokens", "/task-types", "/audit", "/expiry"} {
		if !several[path] {
			t.Errorf("%s has no two items to make pages of", path)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/skus?cursor=gone", nil); a.Code() != "cursor_invalid" {
		t.Errorf("a cursor of what is not there: %d %s", a.Status, a.Body)
	}
}

// lasting is an item without the members that the broker changes by itself at any moment: the seals of the audit log, and
// when a node was last judged.
func lasting(t *testing.T, item json.RawMessage) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(item, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "availability_at")
	delete(members, "position")
	delete(members, "seal")
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
