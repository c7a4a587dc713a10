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
