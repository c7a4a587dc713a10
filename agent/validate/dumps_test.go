package validate

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
)

// A cleanup and a validation must agree on the files.
func TestDumpsAreLookedAtWhereACleanupRemovesThem(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "proc/sys/kernel/core_pattern", "/srv/dumps/core.%e.%p\n")
	hosttest.Put(t, dir, "srv/dumps/core.node.1", "the node's")
	hosttest.Put(t, dir, "srv/dumps/notes", "the node's")
	base := baseOf(t, h, lookDumps)
	for _, name := range []string{"srv/dumps/core.train.77", "core.77", "core.train", "var/crash/a", "var/cores/core.x.1"} {
		hosttest.Put(t, dir, name, "a tenant's")
	}
	hosttest.Put(t, dir, "srv/dumps/core.d.1/x", "no dump")
	want := []string{"dumps dump//core.77", "dumps dump//core.train", "dumps dump//srv/dumps/core.train.77", "dumps dump//var/cores/core.x.1", "dumps dump//var/crash/a"}
	if got := keys(t, newLook(h, base), lookDumps); !slices.Equal(got, want) {
		t.Fatalf("found %q, want %q", got, want)
	}
	base.Mounts = hosttest.Untouched().Mounts
	base.Users = hosttest.Untouched().Users
	report, err := sweep(t, h, base)
	hosttest.OK(t, err)
	if got := keys(t, newLook(h, base), lookDumps); len(got) > 0 || !hosttest.There(dir, "srv/dumps/core.node.1") || !hosttest.There(dir, "srv/dumps/notes") {
		t.Errorf("a cleanup left %q: %+v", got, report.Dispositions)
	}
}
