package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without this test, a row whose benchmark was renamed would report forever that it did not run.
func TestEachAimIsOfABenchmarkThatExists(t *testing.T) {
	sources := map[string]string{}
	source := func(pkg string) string {
		if sources[pkg] == "" {
			files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[pkg] += string(text)
			}
		}
		return sources[pkg]
	}
	known := func(pkg, benchmark, unit string) {
		t.Helper()
		name, _, _ := strings.Cut(benchmark, "/")
		if text := source(pkg); !strings.Contains(text, "\nfunc Benchmark"+name+"(") || !strings.Contains(text, `"`+unit+`"`) {
			t.Errorf("%s has no Benchmark%s that reports %s", pkg, name, unit)
		}
	}
	for _, a := range aims {
		known(a.pkg, a.benchmark, a.unit)
	}
	for _, c := range curves {
		known(hallPkg, c.benchmark, c.unit)
	}
}
