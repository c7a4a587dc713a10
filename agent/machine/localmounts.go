package machine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/moby/sys/mountinfo"
)

// localTypes are the file systems on which a tenant's files stay on this
// machine. Whatever is not here is not swept: a network file system is other
// people's, and the kernel's own hold no files.
var localTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "vfat", "exfat", "tmpfs", "ramfs", "overlay"}

// LocalMounts are the mount points of local file systems, each once, the outer
// before the inner. Read-only ones too: whoever has root can make one of any.
func (m *Machine) LocalMounts() ([]string, error) {
	raw, err := m.ReadFile("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	return parseLocalMounts(raw)
}

func parseLocalMounts(raw []byte) ([]string, error) {
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(raw), nil)
	if err != nil {
		return nil, fmt.Errorf("cannot parse mounts: %w", err)
	}
	var points []string
	for _, i := range all {
		if slices.Contains(localTypes, i.FSType) && !slices.Contains(points, i.Mountpoint) {
			points = append(points, i.Mountpoint)
		}
	}
	return points, nil
}
