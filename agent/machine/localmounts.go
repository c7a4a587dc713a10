package machine

// localTypes are the file systems on which a tenant's files stay on this machine. Other types are
// not swept: a network file system belongs to other people, and the kernel's own file systems hold
// no files.
var localTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "vfat", "exfat", "tmpfs", "ramfs", "overlay"}

// LocalMounts lists the mount points of local file systems, each once, the outer before the inner.
// Read-only mounts are included: a user with root can make any mount read-only.
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
