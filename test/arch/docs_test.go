package arch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testNamed = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)(?:/[A-Za-z0-9_]+)?`")

// Every test named on a page exists.
func TestPagesNameTestsThatExist(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "grep", "-hoE", "^func (Test|Fuzz)[A-Za-z0-9_]+", "--", "*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	exists := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		exists[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	var pages []string
	err = filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
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

// Each promise on the pages about adversaries names a test that checks it.
func TestTheSecurityPagePromisesNothingWithoutATest(t *testing.T) {
	for name, least := range map[string]int{"docs/explanation/security.md": 50, "docs/reference/adversaries.md": 150} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for i, line := range strings.Split(string(page), "\n") {
			row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.Contains(line, "| test |")
			if row && !testNamed.MatchString(line) {
				t.Errorf("%s:%d: a promise without a test: %s", name, i+1, line)
			}
			if row {
				rows++
			}
		}
		if rows < least {
			t.Errorf("%s has %d rows, and had at least %d", name, rows, least)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// Every link of a page leads to an existing file.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../CHANGELOG.md"}
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
