package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A terminal of any width shows what holds a node or a run back, and why.
func TestNoTableLeavesOutABrake(t *testing.T) {
	brake := regexp.MustCompile(`render\.(Main|More|Aside)\("(STATUS|STATE|TURNOVER|STANDING|STOPPED|TROUBLE|CLASS|CODE|VERDICT|RESULT|SEVERITY|REASON|BECAUSE|WHY|MESSAGE|DETAIL|PROBLEM|NEXT|REFUSES WITH)"\)`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range brake.FindAll(source, -1) {
			t.Errorf("%s: %s can be left out", name, found)
		}
	}
}
