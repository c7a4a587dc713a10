package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

const (
	stagePolicy = "/operation-policies/model.artifact.stage"
	allPolicy   = "/operation-policies/*"
)

func policyPut(o api.OperationOverlay) api.OperationPolicyPut {
	return api.OperationPolicyPut{Policy: o, Reason: "contract 17"}
}

// The effective policy of a project names for each key the level that decided it, whichever order the levels were
// written in.
func TestTheEffectivePolicyOfAnOperationNamesTheLevels(t *testing.T) {
	b := servertest.Start(t)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "other", "lab2")
	set := func(path string, o api.OperationOverlay) api.OperationPolicy {
		t.Helper()
		return servertest.Must[api.OperationPolicy](t, b, http.MethodPut, path, policyPut(o))
	}
	set("/projects/acme%2Flab"+stagePolicy, api.OperationOverlay{TimeoutSeconds: new(int64(60)), AllowedArtifactSources: []string{"s3:models/public"}, AllowedTargetKinds: []string{"node"}})
	kept := set("/organisations/acme"+stagePolicy, api.OperationOverlay{AllowedArtifactSources: []string{"s3:models"}, AllowedTargetKinds: []string{"allocation"}})
	set(allPolicy, api.OperationOverlay{RequireSignatureVerification: new(true), TimeoutSeconds: new(int64(3600))})
	set("/projects/"+theirs.project.ID+stagePolicy, api.OperationOverlay{Enabled: new(false)})
	if kept.Level != "tenant" || kept.OrganisationID != mine.org.ID || kept.ProjectID != "" || kept.Operation != "model.artifact.stage" {
		t.Errorf("%+v", kept)
	}

	viewer := mine.tokens(t, b)["project_viewer of a project"]
	a := b.Ask(t, viewer, http.MethodGet, "/projects/lab"+stagePolicy+"/effective", nil)
	var got api.EffectiveOperationPolicy
	if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	want := `{"project_id":"` + mine.project.ID + `","operation":"model.artifact.stage","policy":{"timeout_seconds":60,"allowed_artifact_sources":["s3:models/public"],` +
		`"allowed_target_kinds":[],"require_signature_verification":true},"decided_by":{` +
		`"allowed_artifact_sources":{"level":"project","operation":"model.artifact.stage"},` +
		`"allowed_target_kinds":{"level":"project","operation":"model.artifact.stage","apart":{"level":"tenant","operation":"model.artifact.stage"}},` +
		`"require_signature_verification":{"level":"global","operation":"*"},` +
		`"timeout_seconds":{"level":"project","operation":"model.artifact.stage"}}}`
	if text := mustJSON(t, got); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if !strings.Contains(string(a.Body), `"allowed_target_kinds":[]`) || strings.Contains(string(a.Body), "max_concurrency") || strings.Contains(string(a.Body), theirs.org.ID) {
		t.Errorf("on the wire: %s", a.Body)
	}

	gone := servertest.Must[api.OperationRule](t, b, http.MethodDelete, "/organisations/acme"+stagePolicy+"?reason=over", nil)
	if gone != (api.OperationRule{Level: "tenant", Operation: "model.artifact.stage"}) {
		t.Errorf("%+v", gone)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/organisations/acme"+stagePolicy, nil); a.Code() != "operation_policy_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	list := servertest.Must[api.OperationPolicyList](t, b, http.MethodGet, "/operation-policies", nil)
	if len(list.Items) != 1 || list.Items[0].Level != "global" || list.Items[0].Operation != "*" {
		t.Errorf("%+v", list)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A policy may come before the operation: whoever sets it is told, and a draft counts as nothing.
func TestAPolicyForAnOperationWithoutDefinitionWarns(t *testing.T) {
	b := servertest.Start(t)
	set := func(path string) string {
		t.Helper()
		return servertest.Must[api.OperationPolicy](t, b, http.MethodPut, path, policyPut(api.OperationOverlay{Enabled: new(true)})).Warning
	}
	if w := set("/operation-policies/model.artifact.stge"); !strings.HasPrefix(w, "no definition of model.artifact.stge is in force yet") {
		t.Errorf("%q", w)
	}
	if w := set(allPolicy); w != "" {
		t.Errorf("%q", w)
	}
	draft := verifies(t, "v1")
	draft.Text = strings.Replace(draft.Text, "operation: runtime.readiness.verify", "operation: runtime.draft.verify", 1)
	servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath, draft)
	if w := set("/operation-policies/runtime.draft.verify"); !strings.HasPrefix(w, "no definition") {
		t.Errorf("%q", w)
	}
	if w := set(stagePolicy); w != "" {
		t.Errorf("%q", w)
	}
}

// Each role does to the policies what it may, and no level widens a wider one.
func TestWhoMaySetThePolicyOfOperations(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	token := mine.tokens(t, b)
	token["operator"] = b.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	token["platform_admin"] = b.Token
	limit := func(n int64) api.OperationPolicyPut {
		return policyPut(api.OperationOverlay{MaxConcurrency: &n})
	}
	enabled := func(on bool) api.OperationPolicyPut { return policyPut(api.OperationOverlay{Enabled: &on}) }
	for _, row := range []struct {
		as, method, path string
		body             any
		code             string // empty: done
	}{
		{"operator", http.MethodPut, allPolicy, enabled(false), "role_insufficient"},
		{"tenant_admin", http.MethodPut, allPolicy, enabled(false), "role_insufficient"},
		{"tenant_admin", http.MethodGet, allPolicy, nil, "role_insufficient"},
		{"operator", http.MethodGet, allPolicy, nil, "operation_policy_not_found"},
		{"platform_admin", http.MethodPut, stagePolicy, limit(10), ""},
		{"platform_admin", http.MethodPut, "/operation-policies/slurm.node.bootstrap", enabled(false), ""},
		{"operator", http.MethodPut, "/organisations/acme" + stagePolicy, limit(5), "role_insufficient"},
		{"project_admin", http.MethodPut, "/organisations/acme" + stagePolicy, limit(5), "role_insufficient"},
		{"project_viewer of a project", http.MethodGet, "/organisations/acme" + stagePolicy, nil, "operation_policy_not_found"},
		{"tenant_admin", http.MethodPut, "/organisations/acme" + stagePolicy, limit(11), "policy_cannot_widen"},
		{"tenant_admin", http.MethodPut, "/organisations/acme/operation-policies/slurm.node.bootstrap", enabled(true), "policy_cannot_widen"},
		{"tenant_admin", http.MethodPut, "/organisations/acme" + stagePolicy, limit(5), ""},
		{"project_member of a project", http.MethodPut, "/projects/lab" + stagePolicy, limit(3), "role_insufficient"},
		{"project_admin of a project", http.MethodPut, "/projects/lab" + stagePolicy, limit(6), "policy_cannot_widen"},
		{"project_admin of a project", http.MethodPut, "/projects/lab" + stagePolicy, limit(3), ""},
		{"project_admin of a project", http.MethodPut, "/projects/lab" + stagePolicy, limit(4), "policy_cannot_widen"},
		{"project_admin of a project", http.MethodPut, "/projects/lab" + stagePolicy, enabled(true), "policy_cannot_widen"},
		{"project_admin", http.MethodPut, "/projects/lab" + stagePolicy, limit(2), ""},
		{"project_admin of a project", http.MethodDelete, "/projects/lab" + stagePolicy + "?reason=r", nil, "role_insufficient"},
		{"tenant_admin", http.MethodPut, "/projects/lab" + stagePolicy, limit(5), ""},
		{"tenant_admin", http.MethodDelete, "/projects/lab" + stagePolicy, nil, "reason_missing"},
		{"tenant_admin", http.MethodDelete, "/projects/lab" + stagePolicy + "?reason=r", nil, ""},
		{"tenant_admin", http.MethodDelete, "/projects/lab" + stagePolicy + "?reason=r", nil, "operation_policy_not_found"},
		{"platform_admin", http.MethodPut, "/projects/acme%2Flab" + allPolicy, limit(1), ""},
		{"platform_admin", http.MethodDelete, stagePolicy + "?reason=r", nil, ""},
	} {
		b.Advance(1e9) // no token asks too often
		if a := b.Ask(t, token[row.as], row.method, row.path, row.body); a.Code() != row.code || row.code == "" && a.Status/100 != 2 {
			t.Errorf("%s %s as %s: %d %s, want %q", row.method, row.path, row.as, a.Status, a.Body, row.code)
		}
	}
	if rows := audited(t, b, "policy_cannot_widen"); len(rows) < 5 {
		t.Errorf("%d refusals are in the audit log", len(rows))
	}
}

// What no policy can be is refused, and nothing of it is stored or shown as it came.
func TestHostilePoliciesOfOperationsAreRefused(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	token := mine.tokens(t, b)["tenant_admin"]
	quoted := func(sources ...string) string { return mustJSON(t, sources) }
	for name, row := range map[string]struct{ operation, policy, code string }{
		"a version":             {"model.artifact.stage@v1", `{"enabled":false}`, "operation_invalid"},
		"capitals":              {"Model.stage", `{"enabled":false}`, "operation_invalid"},
		"a pattern":             {"model.*", `{"enabled":false}`, "operation_invalid"},
		"a walk":                {"..%2F..%2Fprojects", `{"enabled":false}`, "operation_invalid"},
		"SQL":                   {"a.b%27%20OR%201=1", `{"enabled":false}`, "operation_invalid"},
		"a long operation":      {strings.Repeat("a", 65), `{"enabled":false}`, "invalid_request"},
		"no key":                {"a.b", `{}`, "operation_policy_invalid"},
		"an unknown key":        {"a.b", `{"allow":"everything"}`, "invalid_request"},
		"a key twice":           {"a.b", `{"enabled":false,"enabled":true}`, "malformed"},
		"a text for yes":        {"a.b", `{"enabled":"true"}`, "invalid_request"},
		"below zero":            {"a.b", `{"max_concurrency":-1}`, "invalid_request"},
		"a huge number":         {"a.b", `{"max_artifact_size_bytes":1e30}`, "invalid_request"},
		"a huge list":           {"a.b", `{"allowed_artifact_sources":` + quoted(slices.Repeat([]string{"s3:m"}, 5000)...) + `}`, "invalid_request"},
		"a long source":         {"a.b", `{"allowed_artifact_sources":` + quoted("s3:"+strings.Repeat("m", 4000)) + `}`, "operation_policy_invalid"},
		"a way up":              {"a.b", `{"allowed_artifact_sources":["s3:models/../secrets"]}`, "operation_policy_invalid"},
		"an unknown kind":       {"a.b", `{"allowed_artifact_sources":["file:/etc"]}`, "operation_policy_invalid"},
		"escapes of a terminal": {"a.b", `{"allowed_artifact_sources":["s3:m\u001b]0;owned\u0007"]}`, "operation_policy_invalid"},
		"text that runs back":   {"a.b", `{"allowed_artifact_sources":["s3:m\u202eslebom"]}`, "operation_policy_invalid"},
		"a page":                {"a.b", `{"allowed_artifact_sources":["<script>alert(1)</script>"]}`, "operation_policy_invalid"},
		"an unknown target":     {"a.b", `{"allowed_target_kinds":["fleet"]}`, "operation_policy_invalid"},
	} {
		b.Advance(1e9)
		a := b.Ask(t, token, http.MethodPut, "/organisations/acme/operation-policies/"+row.operation, `{"policy":`+row.policy+`}`)
		if a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, row.code)
		}
		if len(a.Body) > 2000 || strings.ContainsAny(string(a.Body), "\x1b\u202e<") {
			t.Errorf("%s is repeated as it came: %.300s", name, a.Body)
		}
	}
	if list := servertest.Must[api.OperationPolicyList](t, b, http.MethodGet, "/organisations/acme/operation-policies", nil); len(list.Items) != 0 {
		t.Errorf("%+v", list.Items)
	}
}

// A condition that cannot be judged is refused with its place when it is set. What holds for a project is told by
// level, name and message: the expression of a wider level is its own.
func TestConditionsAreReadWhenTheyAreSetAndToldWithoutExpressions(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	put := func(expression string) api.OperationPolicyPut {
		return policyPut(api.OperationOverlay{Conditions: []broker.OperationCondition{{Name: "by_day", Expression: expression, Message: "by day alone"}}})
	}
	for expression, want := range map[string][2]string{
		"hour >=":         {"operation_condition_syntax", "condition by_day, line 1, column 8: "},
		"hour > 8 && day": {"operation_condition_unknown_name", "condition by_day, line 1, column 13: there is nothing with the name 'day' (the variables are operation, "},
		"hour + 1":        {"operation_condition_type", "condition by_day has the result int"},
		"":                {"operation_policy_invalid", "conditions has by_day, whose expression"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPut, allPolicy, put(expression)); a.Status != http.StatusUnprocessableEntity || a.Code() != want[0] || !strings.Contains(string(a.Body), want[1]) {
			t.Errorf("%q: %d %s, want %v", expression, a.Status, a.Body, want)
		}
	}
	servertest.Must[api.OperationPolicy](t, b, http.MethodPut, allPolicy, put(`hour >= 8 || site == "secret-site"`))
	admin := mine.tokens(t, b)["project_admin of a project"]
	own := put("node_count < 5")
	own.Policy.Conditions[0].Name, own.Policy.TimeoutSeconds = "small", new(int64(60))
	if a := b.Ask(t, admin, http.MethodPut, "/projects/lab"+stagePolicy, own); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, admin, http.MethodGet, "/projects/lab"+stagePolicy, nil); !strings.Contains(string(a.Body), `"expression":"node_count \u003c 5"`) {
		t.Errorf("its own policy: %s", a.Body)
	}
	a := b.Ask(t, admin, http.MethodGet, "/projects/lab"+stagePolicy+"/effective", nil)
	var got api.EffectiveOperationPolicy
	if err := json.Unmarshal(a.Body, &got); err != nil || strings.Contains(string(a.Body), "secret-site") {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	want := `{"project_id":"` + mine.project.ID + `","operation":"model.artifact.stage","policy":{"timeout_seconds":60},` +
		`"decided_by":{"timeout_seconds":{"level":"project","operation":"model.artifact.stage"}},` +
		`"conditions":[{"level":"global","operation":"*","name":"by_day","message":"by day alone"},` +
		`{"level":"project","operation":"model.artifact.stage","name":"small","message":"by day alone"}]}`
	if text := mustJSON(t, got); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	b.Advance(1e9)
	own.Policy.Conditions = nil // a project_admin may not take a condition away
	if a := b.Ask(t, admin, http.MethodPut, "/projects/lab"+stagePolicy, own); a.Code() != "policy_cannot_widen" || !strings.Contains(string(a.Body), "its conditions permits more") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
