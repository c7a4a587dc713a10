package machine

// localTypes are the file systems on which a tenant's files stay on this
// machine. Whatever is not here is not swept: a network file system is other
// people's, and the kernel's own hold no files.
var localTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "vfat", "exfat", "tmpfs", "ramfs", "overlay"}

// LocalMounts are the mount points of local file systems, each once, the outer
// before the inner. Read-only ones too: whoever has root can make one of any.
func (m *Machine) LocalMounts() ([]string, error) {
	all, err := m.mounts("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	seen := map[string]bool{}
	for _, mt := range all {
		if mt.Local() && !seen[mt.Point] {
			seen[mt.Point] = true
			points = append(points, mt.Point)
		}
	}
	return points, nil
}
