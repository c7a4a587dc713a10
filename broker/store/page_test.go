package store

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	createsTable = regexp.MustCompile(`(?im)^\s*CREATE TABLE (\w+)`)
	nameInPage   = regexp.MustCompile("`([a-z_]+)`")
)

// The retention of a table's rows is decided and documented when the table is made: the first table
// of docs/reference/retention.md lists every table in its first column.
func TestThePageSaysOfEachTableHowLongItIsKept(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, name := range names {
		script, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range createsTable.FindAllSubmatch(script, -1) {
			made = append(made, string(m[1]))
		}
	}
	said := tablesOn(string(raw))
	if len(made) < 60 || len(said) < 60 {
		t.Fatalf("%d tables are made, and the page has %d", len(made), len(said))
	}
	for _, table := range made {
		if !slices.Contains(said, table) {
			t.Errorf("docs/reference/retention.md does not say what becomes of the rows of table %s", table)
		}
	}
	for i, table := range said {
		if !slices.Contains(made, table) || slices.Contains(said[:i], table) {
			t.Errorf("docs/reference/retention.md tells of table %s, which there is not, or tells of it twice", table)
		}
	}
}

func TestATableThatThePageOnlyMentionsIsNotListed(t *testing.T) {
	page := "`a` is a table.\n\n| table | is kept |\n| --- | --- |\n| `b`, `c` | as long as `d` |\n\n| what | why |\n| --- | --- |\n| `e` | so |\n"
	if got := strings.Join(tablesOn(page), " "); got != "b c" {
		t.Errorf("listed are %s", got)
	}
}

// tablesOn returns the names in the first column of a page's first table.
func tablesOn(page string) (all []string) {
	_, rows, _ := strings.Cut(page, "\n| --- ")
	rows, _, _ = strings.Cut(rows, "\n\n")
	for row := range strings.SplitSeq(rows, "\n") {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, m := range nameInPage.FindAllStringSubmatch(first, -1) {
			all = append(all, m[1])
		}
	}
	return all
}
