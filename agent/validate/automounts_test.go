package validate

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// Nobody can see behind an automount that is not triggered, so such a look counts as not made.
func TestAnAutomountThatWasNotTriggeredIsNoCleanTree(t *testing.T) {
	const root = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	for _, test := range []struct {
		name, mounts string
		seen         bool
	}{
		{"in a tree", "23 22 0:40 / /opt/apps rw - autofs systemd-1 rw\n", false},
		{"the tree itself", "23 22 0:40 / /opt rw - autofs systemd-1 rw\n", false},
		{"triggered", "23 22 0:40 / /opt/apps rw - autofs systemd-1 rw\n24 23 254:2 / /opt/apps rw - ext4 /dev/vdb rw\n", true},
		{"where nothing is looked at", "23 22 0:40 / /usr/lib/hostler-agent/apps rw - autofs systemd-1 rw\n24 22 0:41 / /srv/apps rw - autofs systemd-1 rw\n", true},
	} {
		h, dir := hosttest.Used(t)
		hosttest.Put(t, dir, "opt/apps/.keep", "")
		hosttest.Put(t, dir, "proc/1/mountinfo", root+test.mounts)
		_, err := lookPrograms(t.Context(), newLook(h, &taskcatalog.Baseline{}))
		if test.seen != (err == nil) || err != nil && !strings.Contains(err.Error(), "automount") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
