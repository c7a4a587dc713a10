package tasks

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A cleanup and a validation must agree on the files.
func TestDumpsAreLookedAtWhereACleanupRemovesThem(t *testing.T) {
	h, dir := used(t)
	put(t, dir, "proc/sys/kernel/core_pattern", "/srv/dumps/core.%e.%p\n")
	put(t, dir, "srv/dumps/core.node.1", "the node's")
	put(t, dir, "srv/dumps/notes", "the node's")
	base := baseOf(t, h, lookDumps)
	for _, name := range []string{"srv/dumps/core.train.77", "core.77", "core.train", "var/crash/a", "var/cores/core.x.1"} {
		put(t, dir, name, "a tenant's")
	}
	put(t, dir, "srv/dumps/core.d.1/x", "no dump")
	want := []string{"dumps dump//core.77", "dumps dump//core.train", "dumps dump//srv/dumps/core.train.77", "dumps dump//var/cores/core.x.1", "dumps dump//var/crash/a"}
	if got := keys(t, newLook(h, base), lookDumps); !slices.Equal(got, want) {
		t.Fatalf("found %q, want %q", got, want)
	}
	base.Mounts = untouched().Mounts
	base.Users = untouched().Users
	_, report, err := cleanUp(t, h, taskcatalog.StorageCleanupParams{Baseline: base})
	ok(t, err)
	if got := keys(t, newLook(h, base), lookDumps); len(got) > 0 || !there(dir, "srv/dumps/core.node.1") || !there(dir, "srv/dumps/notes") {
		t.Errorf("a cleanup left %q: %+v", got, report.Dispositions)
	}
}
