package store

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// lastAlone is the last migration from before brokers of two releases ran side by side.
const lastAlone = "0031_terminal_opens.sql"

var (
	createdTable = regexp.MustCompile(`(?i)^CREATE TABLE (\w+)`)
	addedColumn  = regexp.MustCompile(`(?is)^ALTER TABLE \w+ ADD COLUMN (\w+) .*\bDEFAULT\b`)
	plainIndex   = regexp.MustCompile(`(?i)^CREATE INDEX`)
	uniqueIndex  = regexp.MustCompile(`(?is)^CREATE UNIQUE INDEX \w+ ON (\w+)`)
	// Rows of the old broker have the default 0 in the new column, so the index does not see them.
	ownPartial = regexp.MustCompile(`(?is)^CREATE UNIQUE INDEX \w+ ON \w+ \([^)]*\) WHERE (\w+) > 0$`)
	filled     = regexp.MustCompile(`(?i)^INSERT INTO (\w+)`)
	setColumn  = regexp.MustCompile(`(?i)^UPDATE \w+ SET (\w+) = [^,]+$`)
)

// A broker of the previous release keeps running on the new schema while the brokers are replaced
// one by one. A migration therefore only adds, and removes or renames nothing that the old broker
// reads or writes. The old broker's rows get the default in each new column.
func TestMigrationsOnlyAdd(t *testing.T) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) < 30 {
		t.Fatalf("%d migrations, %v", len(names), err)
	}
	for _, name := range names {
		if strings.TrimPrefix(name, "migrations/") <= lastAlone {
			continue
		}
		raw, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range removing(string(raw)) {
			t.Errorf("%s: what the release before may read or write must stay as it is: %.80s", name, s)
		}
	}
}

func TestWhatAMigrationMayNotDo(t *testing.T) {
	for script, bad := range map[string]int{
		"-- a; comment\nCREATE TABLE a (x TEXT);\nCREATE UNIQUE INDEX i ON a (x);\nINSERT INTO a VALUES (1);":                          0,
		"ALTER TABLE nodes ADD COLUMN held INTEGER NOT NULL DEFAULT 0; CREATE INDEX i ON nodes (held);":                                0,
		"ALTER TABLE nodes ADD COLUMN held_at BIGINT NOT NULL DEFAULT 0; CREATE UNIQUE INDEX i ON nodes (hostname) WHERE held_at > 0;": 0,
		"CREATE UNIQUE INDEX i ON nodes (hostname) WHERE epoch > 0;":                                                                   1,
		"UPDATE nodes SET held = 1;":                           1,
		"ALTER TABLE nodes ADD COLUMN held INTEGER NOT NULL;":  1,
		"ALTER TABLE nodes DROP COLUMN epoch;":                 1,
		"ALTER TABLE nodes RENAME TO machines;":                1,
		"CREATE UNIQUE INDEX i ON nodes (hostname);":           1,
		"DROP TABLE nodes; DELETE FROM tasks; DROP INDEX i_1;": 3,
	} {
		if got := removing(script); len(got) != bad {
			t.Errorf("%s: %q are refused, want %d", script, got, bad)
		}
	}
}

// removing returns the statements of a migration that do more than add.
func removing(script string) (bad []string) {
	var kept strings.Builder
	for line := range strings.Lines(script) {
		text, _, _ := strings.Cut(line, "--")
		kept.WriteString(text + "\n")
	}
	own := map[string]bool{} // tables and columns made by the migration itself
	for s := range strings.SplitSeq(kept.String(), ";") {
		s = strings.TrimSpace(s)
		switch m := createdTable.FindStringSubmatch(s); {
		case s == "":
		case m != nil:
			own[m[1]] = true
		case addedColumn.MatchString(s):
			own[addedColumn.FindStringSubmatch(s)[1]] = true
		case plainIndex.MatchString(s), ofOwn(uniqueIndex, s, own), ofOwn(ownPartial, s, own), ofOwn(filled, s, own), ofOwn(setColumn, s, own):
		default:
			bad = append(bad, s)
		}
	}
	return bad
}

// ofOwn reports whether a statement matches a form and concerns a table or column of the migration.
func ofOwn(form *regexp.Regexp, s string, own map[string]bool) bool {
	m := form.FindStringSubmatch(s)
	return m != nil && own[m[1]]
}
