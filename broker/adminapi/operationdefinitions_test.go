package adminapi_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/operations"
)

const definitionsPath = "/operation-definitions"

// verifies is the file of the definition runtime.readiness.verify, under another version.
func verifies(t testing.TB, version string) api.OperationDefinitionPush {
	t.Helper()
	text, err := operations.Files.ReadFile("runtime.readiness.verify@v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return api.OperationDefinitionPush{
		File: "verify.yaml", Reason: "because", Text: strings.Replace(string(text), "version: v1", "version: "+version, 1),
	}
}

func listedDefinitions(t testing.TB, b *servertest.Broker, query string) string {
	t.Helper()
	var all []string
	for _, d := range servertest.Must[api.OperationDefinitionList](t, b, http.MethodGet, definitionsPath+query, nil).Items {
		if len(d.Definition) > 0 {
			t.Error("a list has content")
		}
		all = append(all, d.ID+" "+d.Status)
	}
	return strings.Join(all, ", ")
}

const shippedDefinitions = "allocation.identity.revoke@v1 active, allocation.runtime.deprovision@v1 active, " +
	"allocation.runtime.provision@v1 active, gpu.host.bootstrap@v1 active, k8s.node.bootstrap@v1 active, k8s.node.leave@v1 active, model.artifact.stage@v1 active, " +
	"node.reclaim.verify@v1 active, ray.node.bootstrap@v1 active, ray.node.leave@v1 active, runtime.readiness.verify@v1 active, slurm.node.bootstrap@v1 active, " +
	"slurm.node.leave@v1 active"

// A definition goes from a file to retired, and each move is on record with its reason.
func TestADefinitionIsPushedActivatedDeprecatedAndRetired(t *testing.T) {
	b := servertest.Start(t)
	if all := listedDefinitions(t, b, ""); all != shippedDefinitions {
		t.Errorf("a new broker keeps %s", all)
	}
	const id = "runtime.readiness.verify@v2"
	made := servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath, verifies(t, "v2"))
	if made.ID != id || made.Status != "draft" || made.Shipped || made.Had || made.CreatedBy != "admin" || !strings.Contains(string(made.Definition), `"version":"v2"`) {
		t.Errorf("%+v", made)
	}
	if again := servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath, verifies(t, "v2")); !again.Had || again.Digest != made.Digest {
		t.Errorf("pushed again: %+v", again)
	}
	other := verifies(t, "v2")
	other.Text = strings.Replace(other.Text, "summary: ", "summary: carefully ", 1)
	replaced := servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath, other)
	activate := api.OperationDefinitionActivate{Status: "active", Digest: made.Digest, Reason: "reviewed"}
	if a := b.Ask(t, b.Token, http.MethodPatch, definitionsPath+"/"+id, activate); a.Code() != "operation_definition_changed" || a.Status != http.StatusConflict {
		t.Errorf("the content of before: %d %s", a.Status, a.Body)
	}
	activate.Digest = replaced.Digest
	for range 2 {
		if d := servertest.Must[api.OperationDefinition](t, b, http.MethodPatch, definitionsPath+"/"+id, activate); d.Status != "active" || d.Digest != replaced.Digest {
			t.Errorf("%+v", d)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, definitionsPath, verifies(t, "v2")); a.Code() != "operation_definition_fixed" || a.Status != http.StatusConflict {
		t.Errorf("another content: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, definitionsPath+"/"+id+"/retire", api.ReasonBody{Reason: "r"}); a.Code() != "transition_refused" {
		t.Errorf("retired while it is active: %d %s", a.Status, a.Body)
	}
	for _, action := range []string{"deprecate", "retire"} {
		if a := b.Ask(t, b.Token, http.MethodPost, definitionsPath+"/"+id+"/"+action, api.ReasonBody{Reason: " "}); a.Code() != "reason_missing" {
			t.Errorf("%s without a reason: %d %s", action, a.Status, a.Body)
		}
		for range 2 {
			d := servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath+"/"+id+"/"+action, api.ReasonBody{Reason: "v3 is better"})
			if !strings.HasPrefix(d.Status, action) || d.Digest != replaced.Digest {
				t.Errorf("%s: %+v", action, d)
			}
		}
	}
	if all := listedDefinitions(t, b, "?status=retired&operation=runtime.readiness.verify"); all != id+" retired" {
		t.Errorf("listed are %s", all)
	}
	for action, reason := range map[string]string{"push": "because", "activate": "reviewed", "deprecate": "v3 is better", "retire": "v3 is better"} {
		rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=operation_definition."+action, nil).Items
		rows = slices.DeleteFunc(rows, func(e api.AuditEntry) bool { return e.Code != "" }) // what was refused
		if len(rows) == 0 || rows[0].Reason != reason || rows[0].Actor != "admin" || rows[0].Subject != "operation_definition/"+id {
			t.Errorf("of %s the audit log has %+v", action, rows)
		}
	}
}

// A faulty file is answered with all its faults, each with file, line and code, and changes nothing.
func TestAPushWithFaultsTellsAllAndChangesNothing(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.OperationDefinition](t, b, http.MethodPost, definitionsPath, verifies(t, "v2"))
	before := servertest.Must[api.OperationDefinition](t, b, http.MethodGet, definitionsPath+"/runtime.readiness.verify@v2", nil)
	bad := verifies(t, "v2")
	bad.Text = strings.NewReplacer("kind: gpu.runtime.check", "kind: shell", "kind: gpu.fabric.verify", "kind: bash").Replace(bad.Text)
	bad.File = "../../etc/\x1b[31mverify.yaml"
	var p api.Problem
	a := b.Ask(t, b.Token, http.MethodPost, definitionsPath, bad)
	if err := json.Unmarshal(a.Body, &p); err != nil {
		t.Fatal(err)
	}
	faults := 0
	for _, f := range p.Errors {
		if f.Code == "unknown_step_kind" && strings.Contains(f.Location, "verify.yaml:") && f.Message != "" {
			faults++
		}
	}
	if a.Status != http.StatusUnprocessableEntity || p.Code != "operation_definition_invalid" || faults != 2 || strings.Contains(string(a.Body), "\x1b") {
		t.Errorf("%d faults: %d %s", faults, a.Status, a.Body)
	}
	for name, row := range map[string]struct{ text, code string }{
		"no YAML":       {"\t{", "operation_definition_invalid"},
		"nothing":       {"", "operation_definition_invalid"},
		"two documents": {verifies(t, "v2").Text + "\n---\na: b\n", "operation_definition_invalid"},
		"too large":     {verifies(t, "v2").Text + "\n#" + strings.Repeat("x", 256<<10), "operation_definition_invalid"},
		"far too large": {strings.Repeat("x", 2<<20), "too_large"},
		"bad name":      {strings.Replace(verifies(t, "v2").Text, "operation: ", "operation: ../", 1), "operation_definition_invalid"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, definitionsPath, api.OperationDefinitionPush{File: "x.yaml", Text: row.text}); a.Code() != row.code {
			t.Errorf("%s: %d %.300s", name, a.Status, a.Body)
		}
	}
	if all := listedDefinitions(t, b, ""); all != strings.Replace(shippedDefinitions, ", slurm.node.bootstrap", ", runtime.readiness.verify@v2 draft, slurm.node.bootstrap", 1) {
		t.Errorf("kept are %s", all)
	}
	if after := servertest.Must[api.OperationDefinition](t, b, http.MethodGet, definitionsPath+"/runtime.readiness.verify@v2", nil); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%+v became %+v", before, after)
	}
	for _, hostile := range []string{"x%00y", "%2e%2e", "a'%20OR%201=1--", "%1b[31m", "x@v1%2Fretire", strings.Repeat("x", 80)} {
		if a := b.Ask(t, b.Token, http.MethodGet, definitionsPath+"/"+hostile, nil); a.Status/100 != 4 || strings.Contains(string(a.Body), "\x1b") {
			t.Errorf("GET %s: %d %s", hostile, a.Status, a.Body)
		}
	}
}

func TestDefinitionsAreListedInPages(t *testing.T) {
	b := servertest.Start(t)
	var ids []string
	for cursor := ""; ; {
		page := servertest.Must[api.OperationDefinitionList](t, b, http.MethodGet, definitionsPath+"?limit=2&cursor="+cursor, nil)
		for _, d := range page.Items {
			ids = append(ids, d.ID+" "+d.Status)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(ids, ", "); got != shippedDefinitions {
		t.Error(got)
	}
}

// Only a platform admin changes definitions, whatever the file says; operators and viewers of the platform
// read; a tenant's tokens get nothing.
func TestADefinitionOfATenantIsRefused(t *testing.T) {
	b := servertest.Start(t)
	tokens := newTenant(t, b, "acme", "lab").tokens(t, b)
	for _, role := range []string{"viewer", "operator"} {
		tokens[role] = b.NewToken(t, api.TokenCreate{Name: "a-" + role, Role: role})
	}
	one := servertest.Must[api.OperationDefinition](t, b, http.MethodGet, definitionsPath+"/gpu.host.bootstrap@v1", nil)
	at := definitionsPath + "/" + one.ID
	for role, token := range tokens {
		for _, row := range []struct {
			method, path string
			body         any
		}{
			{http.MethodPost, definitionsPath, verifies(t, "v9")},
			{http.MethodPatch, at, api.OperationDefinitionActivate{Status: "active", Digest: one.Digest}},
			{http.MethodPost, at + "/deprecate", api.ReasonBody{Reason: "r"}},
			{http.MethodPost, at + "/retire", api.ReasonBody{Reason: "r"}},
			{http.MethodGet, at, nil},
			{http.MethodGet, definitionsPath, nil},
		} {
			b.Advance(1e9)
			a := b.Ask(t, token, row.method, row.path, row.body)
			reads := row.method == http.MethodGet && (role == "viewer" || role == "operator")
			if reads && a.Status != http.StatusOK || !reads && (a.Code() != "role_insufficient" || strings.Contains(string(a.Body), one.Digest)) {
				t.Errorf("%s %s as %s: %d %s", row.method, row.path, role, a.Status, a.Body)
			}
		}
	}
	if all := listedDefinitions(t, b, ""); all != shippedDefinitions {
		t.Errorf("kept are %s", all)
	}
}

// A definition that ships under an id with other content changes nothing: log and status tell of it. One
// that is gone is stored again.
func TestABrokerSaysThatWhatShipsIsNotInForce(t *testing.T) {
	b := servertest.Start(t)
	if s := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil); len(s.Alerts) != 0 {
		t.Errorf("a new broker alerts %+v", s.Alerts)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "hostler.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE operation_definitions SET digest = 'sha256:other' WHERE id = 'gpu.host.bootstrap@v1'`,
		`DELETE FROM operation_definitions WHERE id = 'model.artifact.stage@v1'`,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	alerts := func() (codes []string) {
		for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
			for _, d := range []string{"gpu.host.bootstrap@v1", "model.artifact.stage@v1", "runtime.readiness.verify@v1"} {
				if strings.Contains(a.Message, d) {
					codes = append(codes, a.Code+" "+d)
				}
			}
		}
		return codes
	}
	if got := strings.Join(alerts(), ", "); got != "operation_definitions_differ gpu.host.bootstrap@v1, operation_definitions_missing model.artifact.stage@v1" {
		t.Error(got)
	}
	core, logged := observer.New(zapcore.ErrorLevel)
	b = b.Again(t, func(c *server.Config) { c.Log = zap.New(core) })
	if got := strings.Join(alerts(), ", "); got != "operation_definitions_differ gpu.host.bootstrap@v1" {
		t.Error(got)
	}
	if rows := logged.FilterField(zap.String("definition", "gpu.host.bootstrap@v1")).Len(); rows != 1 || logged.Len() != 1 {
		t.Errorf("the log has %+v", logged.All())
	}
	if d := servertest.Must[api.OperationDefinition](t, b, http.MethodGet, definitionsPath+"/gpu.host.bootstrap@v1", nil); d.Digest != "sha256:other" {
		t.Errorf("it became %s", d.Digest)
	}
	if d := servertest.Must[api.OperationDefinition](t, b, http.MethodGet, definitionsPath+"/model.artifact.stage@v1", nil); !d.Shipped || d.Status != "active" {
		t.Errorf("%+v", d)
	}
}
