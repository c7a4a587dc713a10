package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testNamed = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)(?:/[A-Za-z0-9_]+)?`")

// What a page names as a test is one.
func TestPagesNameTestsThatExist(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "grep", "-hoE", "^func (Test|Fuzz)[A-Za-z0-9_]+", "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	exists := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		exists[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testNamed.FindAllStringSubmatch(string(text), -1) {
			named++
			if !exists[m[1]] {
				t.Errorf("%s names %s, which does not exist", filepath.Base(page), m[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("the pages name only %d tests", named)
	}
}

// The security page promises; each promise names the test that holds it.
func TestTheSecurityPagePromisesNothingWithoutATest(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(page), "\n") {
		row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.Contains(line, "| test |")
		if row && !testNamed.MatchString(line) {
			t.Errorf("docs/security.md:%d: a promise without a test: %s", i+1, line)
		}
	}
}
