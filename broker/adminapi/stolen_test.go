package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A token of the role operator is stolen. docs/explanation/security.md describes what the token
// opens, and every use of the token bears its name.
func TestWhatAStolenOperatorTokenOpens(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	stolen := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "operator"})
	// In this order, because the node gets its user while it is active.
	for _, row := range []struct {
		what, method, path string
		body               any
	}{
		{"a destructive task", http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"local"}`)}},
		{"one that names the tenant whose data it may destroy", http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"local","allocation_id":"a-1"}`)}},
		{"a user of their own on the node", http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{
			Type: "allocation.provision_user", Params: json.RawMessage(`{"allocation_id":"a-9","username":"eve","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 eve"]}`),
		}},
		{"a new node", http.MethodPost, "/nodes", api.NodeCreate{Hostname: "rogue"}},
		{"a node out of use", http.MethodPost, "/nodes/h1/actions/quarantine", api.NodeAction{}},
		{"the audit log, to read", http.MethodGet, "/audit/export", nil},
	} {
		if a := b.Ask(t, stolen, row.method, row.path, row.body); a.Status/100 != 2 {
			t.Errorf("the page that admits %s is out of date: %d %s", row.what, a.Status, a.Body)
		}
	}
	// Another machine takes the node's place: the node itself is shut out then.
	a := b.Ask(t, stolen, http.MethodPost, "/nodes/h1/token", api.TokenRequest{})
	var boot api.NodeBootstrap
	if err := json.Unmarshal(a.Body, &boot); err != nil || boot.Token == "" {
		t.Fatalf("the page that admits a new enrolment is out of date: %d %s", a.Status, a.Body)
	}
	if thief := b.Enroll(t, boot.Token, "h1"); thief.Epoch != 2 {
		t.Errorf("enrolled at epoch %d", thief.Epoch)
	}

	for what, row := range map[string]struct {
		method, path, code string
		body               any
	}{
		"a command":                   {http.MethodPost, "/nodes/h1/tasks", "unknown_type", api.TaskCreate{Type: "node.exec", Params: json.RawMessage(`{"argv":["id"]}`)}},
		"a param that is a command":   {http.MethodPost, "/nodes/h1/tasks", "bad_params", api.TaskCreate{Type: "node.drain", Params: json.RawMessage(`{"shell":"id"}`)}},
		"a baseline of their own":     {http.MethodPost, "/nodes/h1/tasks", "broker_filled_params", api.TaskCreate{Type: "node.validate_clean", Params: json.RawMessage(`{"baseline":{}}`)}},
		"a token for later":           {http.MethodPost, "/tokens", "role_insufficient", api.TokenCreate{Name: "eve", Role: "viewer"}},
		"another key":                 {http.MethodPost, "/trust/rotate", "role_insufficient", api.TrustRotate{Use: "task", Reason: "r"}},
		"another agent":               {http.MethodPut, "/agent-releases/" + strings.Repeat("0", 64) + "?version=1&filename=a_1_amd64.deb", "role_insufficient", strings.NewReader("x")},
		"a policy that knows eve":     {http.MethodPut, "/clean-policy", "role_insufficient", `{}`},
		"a way past an owed turnover": {http.MethodPost, "/nodes/h1/actions/activate", "role_insufficient", api.NodeAction{Override: true, Reason: "r"}},
	} {
		if a := b.Ask(t, stolen, row.method, row.path, row.body); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, row.code)
		}
	}
	codes := map[string]int{}
	for _, row := range servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?actor=ann&limit=1000", nil).Items {
		codes[row.Action+" "+row.Code]++
	}
	for row, want := range map[string]int{"task.enqueue ": 3, "node.create ": 1, "token.issue ": 1, "request.refused role_insufficient": 5, "task.refused unknown_type": 1, "task.refused bad_params": 1, "task.refused broker_filled_params": 1} {
		if codes[row] != want {
			t.Errorf("the audit log has %d of %q by ann, want %d (all: %v)", codes[row], row, want, codes)
		}
	}
}

// A platform admin's token may publish the agent that every new machine installs and runs as root.
// Such a token is equal to root on these machines.
func TestAPlatformAdminDecidesWhatNewMachinesInstall(t *testing.T) {
	b := servertest.Start(t)
	stolen := b.NewToken(t, api.TokenCreate{Name: "eve", Role: "platform_admin"})
	content := "an implant"
	digest := "2ef309f5b69c3b8ecec3517df49c923b7ea9e4cbc22cc7409a8de22246507a05"
	if a := b.Ask(t, stolen, http.MethodPut, "/agent-releases/"+digest+"?version=9.9.9&filename=hostler-agent_9.9.9_amd64.deb", strings.NewReader(content)); a.Status/100 != 2 {
		t.Fatalf("the page that admits this is out of date: %d %s", a.Status, a.Body)
	}
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	if !strings.Contains(boot.CloudConfig, digest) {
		t.Error("the page that admits this is out of date: a new machine installs another package")
	}
	for _, row := range servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?actor=eve", nil).Items {
		if strings.Contains(row.Subject+string(row.After), digest) {
			return
		}
	}
	t.Error("the audit log does not say who published it")
}
