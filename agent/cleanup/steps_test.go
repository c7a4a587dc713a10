package cleanup

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A finding or disposition under an unknown row would be lost to readers of the table.
func TestCleanupStepsAreRowsOfTheTable(t *testing.T) {
	rows := map[string]bool{}
	for _, c := range taskcatalog.Checks() {
		rows[c.Name] = true
	}
	for _, s := range Steps {
		if !rows[s.Check] {
			t.Errorf("%s is no row", s.Check)
		}
	}
	for _, c := range taskcatalog.Checks() {
		done := false
		for _, s := range Steps {
			done = done || s.Check == c.Name
		}
		if c.CleanedBy == taskcatalog.ActionStorageCleanup && !done {
			t.Errorf("nothing cleans %s", c.Name)
		}
	}
}
