package tasks

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestEveryTypeOfTheCatalogHasAHandlerAndNoOtherHas(t *testing.T) {
	for _, c := range taskcatalog.All() {
		if h, ok := Lookup(c.Name, c.Version); !ok || h.Do == nil {
			t.Errorf("%s has no handler", c.ID())
		}
	}
	if len(handlers) != len(taskcatalog.All()) {
		t.Errorf("%d handlers for %d types", len(handlers), len(taskcatalog.All()))
	}
	if _, ok := Lookup("node.drain", 2); ok {
		t.Error("a version that is not in the catalog has a handler")
	}
}

// A finding or disposition under an unknown row would be lost to readers of the table.
func TestCleanupStepsAreRowsOfTheTable(t *testing.T) {
	rows := map[string]bool{}
	for _, c := range taskcatalog.Checks() {
		rows[c.Name] = true
	}
	for _, s := range cleanupSteps {
		if !rows[s.check] {
			t.Errorf("%s is no row", s.check)
		}
	}
	for _, c := range taskcatalog.Checks() {
		done := false
		for _, s := range cleanupSteps {
			done = done || s.check == c.Name
		}
		if c.CleanedBy == taskcatalog.ActionStorageCleanup && !done {
			t.Errorf("nothing cleans %s", c.Name)
		}
	}
}
