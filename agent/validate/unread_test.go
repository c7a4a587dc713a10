package validate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
)

// A cgroup nested deeper than PATH_MAX, or a program at such a path, makes the kernel refuse the
// name.
func TestAProcessThatCannotBeLookedAtIsInconclusiveAndHidesNoTenants(t *testing.T) {
	w := newWhole(t)
	w.process(t, 70, 20001, "x", "/usr/bin/sleep", "/user.slice/x.scope")
	w.process(t, 71, 0, "x", "/usr/bin/sleep", "/user.slice/y.scope")
	w.process(t, 72, 0, "x", "/usr/bin/sleep", "/user.slice/z.scope")
	for _, name := range []string{"proc/71/cgroup", "proc/72/status"} {
		hosttest.OK(t, os.Remove(filepath.Join(w.dir, name)))
		hosttest.OK(t, os.Mkdir(filepath.Join(w.dir, name), 0o755))
	}
	_, report := w.judge(t)
	if got := strings.Join(told(report), "|"); got != "processes 70 x" {
		t.Errorf("found %q", got)
	}
	if got := strings.Join(notMade(t, report), " "); got != "namespaces processes" {
		t.Errorf("not made are %q", got)
	}
}
