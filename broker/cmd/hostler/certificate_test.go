package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// certificates is where the examples of package certificate are.
func certificates(t testing.TB) string {
	dir, err := filepath.Abs("../../certificate/testdata")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// flip FILE N OUT copies a file and makes its byte N another.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: flip FILE N OUT")
	}
	raw := []byte(ts.ReadFile(args[0]))
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	raw[n] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), raw, 0o600))
}
