package arch

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The security page promises; each promise names the test that holds it.
func TestTheSecurityPageNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "grep", "-hoE", "^func (Test|Fuzz)[A-Za-z0-9_]+", "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	exists := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		exists[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Errorf("the page names only %d tests", len(named))
	}
	for _, m := range named {
		if !exists[m[1]] {
			t.Errorf("docs/security.md names %s, which does not exist", m[1])
		}
	}
	for i, line := range strings.Split(string(page), "\n") {
		row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.Contains(line, "| test |")
		if row && !strings.Contains(line, "`Test") && !strings.Contains(line, "`Fuzz") {
			t.Errorf("docs/security.md:%d: a promise without a test: %s", i+1, line)
		}
	}
}
