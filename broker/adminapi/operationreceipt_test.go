package adminapi_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"path/filepath"
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
	text := mustJSON(t, r) // a digest may have the letters dc1
	for _, secret := range []string{node.NodeID, `"dc1"`, " dc1", "words of", "gpu-1", "nvidia_smi"} {
		if strings.Contains(text, secret) {
			t.Errorf("a tenant reads %s: %s", secret, text)
		}
	}
}

// receivesNone checks what a project reads of an attempt that ended under a broker of before receipts.
func receivesNone(t *testing.T, b *servertest.Broker, token, path, operation string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "hostler.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`UPDATE operation_statements SET receipt = '' WHERE operation_id = ? AND attempt = 1`, operation); err != nil {
		t.Fatal(err)
	}
	a := b.Ask(t, token, http.MethodGet, path+"/statement?attempt=1", nil)
	if a.Status != http.StatusNotFound || a.Code() != "operation_receipt_not_made" || !strings.Contains(string(a.Body), "attempt 1 of operation "+operation+" ended before") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, token, http.MethodGet, path+"/statement?attempt=3", nil); a.Code() != "operation_statement_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
