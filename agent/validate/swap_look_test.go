package validate

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A cleanup and its baseline must use the same name for a swap area.
func TestASwapAreaHasItsOwnNameAndNotTheKernelsSpellingOfIt(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/var/a\\040swap file 524284 0 -2\n")
	if got := keys(t, newLook(h, &taskcatalog.Baseline{}), lookSwap); !slices.Equal(got, []string{"swap swap//var/a swap"}) {
		t.Errorf("found %q", got)
	}
}
