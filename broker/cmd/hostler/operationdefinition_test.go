package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A definition is checked without a broker: what is good is listed with its digest, and each fault is told
// with file, line and code.
func TestDefinitionsAreValidatedWithoutABroker(t *testing.T) {
	const shipped = "../../../taskcatalog/operations/"
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"operation-definition", "validate", shipped}, nowhere(&out, &errs)); status != 0 || !strings.Contains(out.String(), "model.artifact.stage@v1") {
		t.Fatalf("status %d: %s%s", status, out.String(), errs.String())
	}
	text, err := os.ReadFile(shipped + "runtime.readiness.verify@v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "kind: gpu.runtime.check")
	if !found {
		t.Fatal("the definition that the test spoils has no step gpu.runtime.check")
	}
	line := 1 + strings.Count(before, "\n")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bad.yaml": strings.Replace(string(text), "kind: gpu.runtime.check", "kind: shell", 1), "one.yaml": string(text), "two.yaml": string(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out.Reset()
	errs.Reset()
	status := run(context.Background(), []string{"operation-definition", "validate", dir}, nowhere(&out, &errs))
	for _, want := range []string{fmt.Sprintf("bad.yaml:%d: unknown_step_kind:", line), "two.yaml:1: duplicate_id:", "operation_definition_invalid"} {
		if status == 0 || !strings.Contains(errs.String(), want) || strings.Contains(out.String(), "@v1") {
			t.Errorf("status %d, want %s: %s%s", status, want, out.String(), errs.String())
		}
	}
}
