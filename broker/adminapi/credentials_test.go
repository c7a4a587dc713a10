package adminapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestANodesTokenIsKeptOutOfDatabaseAndAnswers(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	token := taskcatalog.MAASMachineToken{Endpoint: "http://10.0.0.2:5248/MAAS/metadata/status/abc", ConsumerKey: "CK", TokenKey: "TK", TokenSecret: "VERYSECRET"}
	path := "/nodes/" + n.NodeID + "/credentials"
	a := b.Ask(t, b.Token, http.MethodPut, path, api.NodeCredentials{MAASMachineToken: token, Reason: "reseed"})
	if a.Status != http.StatusOK || strings.Contains(string(a.Body), "VERYSECRET") {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=node.credentials", nil)
	if len(rows.Items) != 1 || rows.Items[0].Reason != "reseed" {
		t.Errorf("%+v", rows.Items)
	}
	files := 0
	err := filepath.WalkDir(b.Dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if strings.Contains(string(raw), "VERYSECRET") {
			t.Errorf("the token is readable in %s", d.Name())
		}
		if strings.HasSuffix(name, "maas-machine-token.age") {
			files++
		}
		return err
	})
	if err != nil || files != 1 {
		t.Errorf("%d files of the secret, %v", files, err)
	}

	token.Endpoint = "file:///etc/shadow"
	if a := b.Ask(t, b.Token, http.MethodPut, path, api.NodeCredentials{MAASMachineToken: token}); a.Code() != "maas_machine_token_invalid" || strings.Contains(string(a.Body), "VERYSECRET") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, action := range []api.NodeAction{{Force: true, Reason: "sold"}} {
		servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/"+n.NodeID+"/actions/retire", action)
		servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/"+n.NodeID+"/actions/remove", action)
	}
	if left, _ := filepath.Glob(filepath.Join(b.Dir, "secrets", "nodes", n.NodeID, "*.age")); len(left) > 0 {
		t.Errorf("a removed node's secrets are still there: %v", left)
	}
	if a := b.Ask(t, b.Token, http.MethodPut, path, api.NodeCredentials{MAASMachineToken: token}); a.Status < 400 {
		t.Errorf("a removed node was given credentials: %d", a.Status)
	}
}
