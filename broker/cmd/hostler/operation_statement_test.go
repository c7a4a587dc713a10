package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A statement is checked without a broker: its steps are shown, and the exit status says whether it can be
// believed and whether the operation succeeded.
func TestAStatementOfAnOperationIsVerifiedWithoutABroker(t *testing.T) {
	const from = "../../operation/statement/testdata/"
	verify := func(file string) (int, string) {
		var out, errs bytes.Buffer
		status := run(context.Background(), []string{"operation", "verify", file, "--trust", from + "trust.json"}, nowhere(&out, &errs))
		return status, out.String() + errs.String()
	}
	status, text := verify(from + "staged.json")
	if status != 0 || !strings.Contains(text, "succeeded") || !strings.Contains(text, "artifact.pull_blob") || !strings.Contains(text, "model.artifact.stage@v1") {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := verify(from + "failed.json"); status != 3 || !strings.Contains(text, "operation_failed") || !strings.Contains(text, "step_failed") {
		t.Errorf("of a failed operation: status %d: %s", status, text)
	}
	file, err := os.ReadFile(from + "staged.json")
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed.json")
	if err := os.WriteFile(changed, bytes.Replace(file, []byte(`"payload":"`), []byte(`"payload":"AAAA`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, text := verify(changed); status != 1 || strings.Contains(text, "artifact.pull_blob") {
		t.Errorf("of a changed file: status %d: %s", status, text)
	}
	if status, text := verify(from + "receipt.json"); status != 0 || !strings.Contains(text, "artifact.pull_blob") || !strings.Contains(text, "1 of 1 nodes") ||
		strings.Contains(text, "n-abcdefghijklmnop") {
		t.Errorf("of a tenant's version: status %d: %s", status, text)
	}
	if status, text := verify("../../certificate/testdata/clean.json"); status != 1 {
		t.Errorf("of a certificate: status %d: %s", status, text)
	}
}
