package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/server/servertest"
)

// receives checks the tenant's version of a statement: it verifies with the trust bundle alone, and names no node.
func receives(t *testing.T, b *servertest.Broker, token, path string, node *servertest.Node, status, digest string) {
	t.Helper()
	a := b.Ask(t, token, http.MethodGet, path, nil)
	var file api.OperationStatement
	if err := json.Unmarshal(a.Body, &file); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	got, err := statement.Verify([]byte(file.File), node.Trust, b.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := got.Receipt
	if r == nil || r.Status != status || r.StatementDigest != digest || r.Nodes != 1 || r.Proven != 1 || len(r.Steps) != 5 || file.Digest != got.Digest {
		t.Errorf("%+v", r)
	}
	text := mustJSON(t, r)
	for _, secret := range []string{node.NodeID, "dc1", "words of", "gpu-1", "nvidia_smi"} {
		if strings.Contains(text, secret) {
			t.Errorf("a tenant reads %s: %s", secret, text)
		}
	}
}
