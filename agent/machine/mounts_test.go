package machine

import (
	"path/filepath"
	"testing"
)

func TestAMountsRestrictionsAreItsOwnAndInOneOrder(t *testing.T) {
	const text = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 254:2 / /data noatime,noexec,ro,nodev,nosuid - ext4 /dev/vdb rw,nosuid
24 22 254:3 / /sb rw - ext4 /dev/vdc ro
`
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "proc/1/mountinfo"), text)
	all, err := m.Mounts()
	must(t, err)
	for i, want := range []string{"rw", "ro,nosuid,nodev,noexec", "rw"} {
		if all[i].Access != want {
			t.Errorf("%s is %q, want %q", all[i].Point, all[i].Access, want)
		}
	}
}
