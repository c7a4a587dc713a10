package adminapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

var update = flag.Bool("update", false, "write the golden files")

// filled puts plausible values into a path's parameters.
func filled(path, node string) string {
	return strings.NewReplacer("{node}", node, "{action}", "quarantine", "{task}", "t-none", "{type}", "node.drain",
		"{name}", "nobody", "{operation_type}", "model.artifact.stage", "{digest}", strings.Repeat("0", 64),
		"{site}", "no-site", "{profile}", "default", "{override}", "none", "{assignment}", "none", "{sku}", "none",
		"{organisation}", "none", "{project}", "none", "{allocation}", "alc-none", "{member}", "none",
		"{onboarding}", "r-none", "{run}", "r-none", "{rollout}", "r-none", "{decommission}", "r-none", "{batch}", "none",
		"{registry}", "none.invalid", "{version}", "9.9.9", "{key}", "none", "{serial}", "00",
		"{terminal}", "ts-nonenone", "{recording}", "ts-nonenone",
		"{definition}", "none@v1", "{operation}", "op-none", "{certificate}", "r-none.1", "{attestation}", "att-none").Replace(path)
}

func body(method string) any {
	if method == http.MethodGet {
		return nil
	}
	return `{}`
}

func TestTheTableOfRoutesIsTheGolden(t *testing.T) {
	var got strings.Builder
	for _, r := range adminapi.Routes() {
		fmt.Fprintf(&got, "%-4s %-36s %s\n", r.Method, r.Path, r.Access)
	}
	const golden = "testdata/routes.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the table differs from %s (go test -update, and read the diff):\n%s", golden, got.String())
	}
}

// TestEveryRouteNeedsItsRole walks the table with each role and with every kind of invalid token.
func TestEveryRouteNeedsItsRole(t *testing.T) {
	b := servertest.Start(t)
	secret := map[string]string{}
	for _, role := range []broker.Role{broker.RoleViewer, broker.RoleOperator, broker.RolePlatformAdmin} {
		secret[string(role)] = b.NewToken(t, api.TokenCreate{Name: "a-" + strings.ReplaceAll(string(role), "_", "-"), Role: string(role)})
	}
	servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "acme"})
	for _, role := range []broker.Role{broker.RoleProjectViewer, broker.RoleProjectMember, broker.RoleProjectAdmin, broker.RoleTenantAdmin} {
		secret[string(role)] = b.NewToken(t, api.TokenCreate{Name: "a-" + strings.ReplaceAll(string(role), "_", "-"), Role: string(role), Organisation: "acme"})
	}
	expired := b.NewToken(t, api.TokenCreate{Name: "short", Role: "platform_admin", TTLSeconds: 60})
	revoked := b.NewToken(t, api.TokenCreate{Name: "gone", Role: "platform_admin"})
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/gone/revoke", api.ReasonBody{Reason: "test"})
	b.Advance(2 * time.Minute)

	for _, r := range adminapi.Routes() {
		path := filled(r.Path, "n-none")
		if strings.HasSuffix(r.Path, "/events") {
			path += "?follow=false" // else the stream does not end
		}
		for role, token := range secret {
			a := b.Ask(t, token, r.Method, path, body(r.Method))
			may := broker.Role(role).Covers(broker.Role(r.Role)) || broker.Role(role).Covers(broker.Role(r.Tenant))
			if refused := a.Status == http.StatusForbidden && a.Code() == "role_insufficient"; refused == may {
				t.Errorf("%s %s as %s: %d %s; it needs %s", r.Method, r.Path, role, a.Status, a.Code(), r.Access)
			}
			if a.Status == http.StatusUnauthorized || a.Status >= 500 {
				t.Errorf("%s %s as %s: %d %s", r.Method, r.Path, role, a.Status, a.Body)
			}
		}
		for name, row := range map[string]struct{ token, code string }{
			"no token":        {"", "token_missing"},
			"no token at all": {"hso_", "token_unknown"},
			"unknown token":   {"hso_" + strings.Repeat("A", 43), "token_unknown"},
			"expired token":   {expired, "token_expired"},
			"revoked token":   {revoked, "token_revoked"},
		} {
			b.Advance(5 * time.Second) // so that the limit on guessing does not refuse the request
			if a := b.Ask(t, row.token, r.Method, path, body(r.Method)); a.Status != http.StatusUnauthorized || a.Code() != row.code {
				t.Errorf("%s %s with %s: %d %s, want 401 %s", r.Method, r.Path, name, a.Status, a.Code(), row.code)
			}
		}
	}
	if a := b.Ask(t, "", http.MethodGet, "/no/such/route", nil); a.Status != http.StatusUnauthorized {
		t.Errorf("a path without a route tells %d to who has no token", a.Status)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/no/such/route", nil); a.Code() != "route_not_found" {
		t.Errorf("a path without a route answers %d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=request.refused&limit=1000", nil)
	codes := map[string]int{}
	for _, e := range rows.Items {
		codes[e.Code]++
	}
	for _, code := range []string{"role_insufficient", "token_expired", "token_revoked"} {
		if codes[code] == 0 {
			t.Errorf("no refusal with %s is in the audit log", code)
		}
	}
}

// TestATokenBoundToASiteDoesNotSeeTheOthers walks every route about a node.
func TestATokenBoundToASiteDoesNotSeeTheOthers(t *testing.T) {
	b := servertest.Start(t)
	other := b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h0"}).Settle(t)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h2/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	bound := b.NewToken(t, api.TokenCreate{Name: "dc1-op", Role: "operator", Sites: []string{"dc1"}})

	for _, r := range adminapi.Routes() {
		if r.Role == string(broker.RolePlatformAdmin) || !strings.Contains(r.Path, "{node}") && !strings.Contains(r.Path, "{task}") {
			continue
		}
		path := strings.ReplaceAll(filled(strings.ReplaceAll(r.Path, "{task}", task.ID), other.NodeID), "t-none", task.ID)
		send := map[string]any{
			"/nodes/{node}/decommission":         api.DecommissionStart{Mode: "soft_reset", Reason: "r"},
			"/nodes/{node}/decommission/plan":    api.DecommissionStart{Mode: "soft_reset", Reason: "r"},
			"/nodes/{node}/attestations":         api.AttestationPut{Device: "d", Method: "removed", Witness: "w"},
			"/nodes/{node}/storage-cleanup":      api.StorageCleanupStart{Scope: "local", Reason: "r"},
			"/nodes/{node}/storage-cleanup/plan": api.StorageCleanupStart{Scope: "local", Reason: "r"},
			"/nodes/{node}/agent-lifecycle":      api.AgentLifecycleStart{Scenario: "config_repair"},
			"/nodes/{node}/labels":               api.Labels{Labels: map[string]string{"a": "b"}},
			"/nodes/{node}/tasks":                api.TaskCreate{Type: "node.heartbeat_check"},
			"/nodes/{node}/devices/accept":       api.DeviceAccept{Devices: []string{"d"}, Reason: "r"},
			"/nodes/{node}/baseline/accept":      api.BaselineAccept{Digest: "sha256:" + strings.Repeat("0", 64), Reason: "r"},
		}[r.Path]
		if send == nil || r.Method == http.MethodGet {
			send = body(r.Method)
		}
		if a := b.Ask(t, bound, r.Method, path, send); a.Status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s, want 404", r.Method, r.Path, a.Status, a.Body)
		}
	}
	for path, want := range map[string]string{
		"/nodes?site=dc2":                 "site_forbidden",
		"/status?site=dc2":                "site_forbidden",
		"/clean-policy?site=dc2":          "site_forbidden",
		"/clean-policy":                   "site_forbidden",
		"/audit":                          "site_forbidden",
		"/expiry":                         "site_forbidden",
		"/audit/export":                   "site_forbidden",
		"/audit?node=h2":                  "node_not_found",
		"/audit/export?node=h2":           "node_not_found",
		"/tasks?node=h2":                  "node_not_found",
		"/nodes/dc2%2Fh2":                 "node_not_found",
		"/nodes/h0":                       "node_not_found",
		"/nodes/" + other.NodeID[:8] + "": "node_not_found",
	} {
		if a := b.Ask(t, bound, http.MethodGet, path, nil); a.Code() != want {
			t.Errorf("GET %s: %d %s, want %s", path, a.Status, a.Body, want)
		}
	}
	if a := b.Ask(t, bound, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "x", Site: "dc2"}); a.Code() != "site_forbidden" {
		t.Errorf("a node was made at another site: %d %s", a.Status, a.Body)
	}
	var nodes api.NodeList
	if a := b.Ask(t, bound, http.MethodGet, "/nodes", nil); json.Unmarshal(a.Body, &nodes) != nil || len(nodes.Items) != 1 || nodes.Items[0].Hostname != "h1" {
		t.Errorf("it lists %s, want h1 alone", a.Body)
	}
	var tasks api.TaskList
	a := b.Ask(t, bound, http.MethodGet, "/tasks", nil)
	if err := json.Unmarshal(a.Body, &tasks); err != nil {
		t.Fatal(err)
	}
	for _, k := range tasks.Items {
		if k.Hostname != "h1" {
			t.Errorf("it lists a task of %s", k.Hostname)
		}
	}
	var status api.Status
	if a := b.Ask(t, bound, http.MethodGet, "/status", nil); json.Unmarshal(a.Body, &status) != nil || status.Nodes["active"] != 1 {
		t.Errorf("its status is %s, want one active node", a.Body)
	}
	if a := b.Ask(t, bound, http.MethodGet, "/nodes/dc1%2Fh1", nil); a.Status != http.StatusOK {
		t.Errorf("its own node: %d %s", a.Status, a.Body)
	}
}
