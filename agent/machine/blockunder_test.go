package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A btrfs mounted by a tenant does not make its disks system disks: only the file system mounted at
// the root counts.
func TestOnlyTheDisksOfTheRootsOwnBtrfsAreTheSystems(t *testing.T) {
	for name, row := range map[string]struct {
		root string // the source of /
		want string
	}{
		"by its partition":   {"/dev/sda2", "sda sde"},
		"by a mapping":       {"/dev/mapper/root", "sdd"},
		"by no known device": {"/dev/root", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := newMachine(t)
			for file, text := range map[string]string{
				"proc/1/mountinfo":            "22 1 0:30 / / rw - btrfs " + row.root + " rw\n23 22 0:31 / /data rw - btrfs /dev/sdb rw\n24 22 0:32 / /more rw - btrfs /dev/sdc1 rw\n",
				"sys/fs/btrfs/1/devices/sda2": "", "sys/fs/btrfs/1/devices/sde": "",
				"sys/fs/btrfs/2/devices/sdb": "", "sys/fs/btrfs/3/devices/sdc1": "",
				"sys/fs/btrfs/4/devices/dm-0": "", "sys/fs/btrfs/features/big_metadata": "0\n",
				"sys/class/block/dm-0/slaves/sdd": "",
				"sys/devices/sda/sda2/partition":  "2\n", "sys/devices/sdc/sdc1/partition": "1\n",
			} {
				write(t, filepath.Join(dir, file), text)
			}
			for link, to := range map[string]string{
				"dev/mapper/root": "../dm-0", "sys/class/block/sda2": "../../devices/sda/sda2", "sys/class/block/sdc1": "../../devices/sdc/sdc1",
			} {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755))
				must(t, os.Symlink(to, filepath.Join(dir, link)))
			}
			got, err := m.SystemDisks()
			must(t, err)
			if slices.Sort(got); strings.Join(got, " ") != row.want {
				t.Errorf("the system is on %q, want %q", got, row.want)
			}
		})
	}
}
