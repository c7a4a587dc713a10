package machine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of the host's mount table.
type Mount struct {
	Point string
	Type  string
	Root  string // within the file system: not / for a bind mount
	// Device is the device number of the mounted file system, major:minor.
	Device string
	Source string // /dev/sda2, where the file system names a source
	// Access lists the mount's own restrictions: rw or ro, then nosuid, nodev and noexec if set.
	Access string
	User   string // the uid for whom FUSE was mounted; empty for any other
}

// Mounts returns the mount table of the host's mount namespace, the namespace of PID 1.
func (m *Machine) Mounts() ([]Mount, error) { return m.mounts("/proc/1/mountinfo") }

// maxMountText bounds the text kept of a mount table, in bytes. The kernel limits a mount namespace
// to 100,000 mounts (fs.mount-max).
const maxMountText = 256 << 20

func (m *Machine) mounts(table string) ([]Mount, error) {
	var all []Mount
	text := 0
	err := m.lines(table, func(line []byte) error {
		mt, err := parseMount(line)
		if text += len(mt.Point) + len(mt.Root) + len(mt.Source); err == nil && text > maxMountText {
			err = fmt.Errorf("cannot list mounts: their paths have more than %d bytes", maxMountText)
		}
		all = append(all, mt)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list mounts: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("cannot list mounts: the mount table is empty")
	}
	return all, nil
}

// parseMount reads one line of a mount table.
func parseMount(line []byte) (Mount, error) {
	infos, err := mountinfo.GetMountsFromReader(bytes.NewReader(line), nil)
	if err != nil || len(infos) != 1 {
		return Mount{}, fmt.Errorf("cannot parse a line of the mount table: %w", cmp.Or(err, errors.New("it is empty")))
	}
	info := infos[0]
	return Mount{
		Point: info.Mountpoint, Type: info.FSType, Root: info.Root, Device: fmt.Sprintf("%d:%d", info.Major, info.Minor),
		Source: info.Source, Access: access(info.Options), User: fuseUser(info),
	}, nil
}

// access picks the restrictions from a mount's own options, in a fixed order.
func access(options string) string {
	set := strings.Split(options, ",")
	access := "rw"
	if slices.Contains(set, "ro") {
		access = "ro"
	}
	for _, restriction := range []string{"nosuid", "nodev", "noexec"} {
		if slices.Contains(set, restriction) {
			access += "," + restriction
		}
	}
	return access
}

// Served reports whether a process serves the mount: a FUSE, which may never answer.
func (mt Mount) Served() bool { return served(mt.Type) }

func served(fstype string) bool {
	fstype, _, _ = strings.Cut(fstype, ".")
	return fstype == "fuse" || fstype == "fuseblk"
}

// fuseUser returns the uid for which a FUSE was mounted, as the kernel reports it.
func fuseUser(info *mountinfo.Info) string {
	if !served(info.FSType) {
		return ""
	}
	for _, option := range strings.Split(info.VFSOptions, ",") {
		if uid, ok := strings.CutPrefix(option, "user_id="); ok {
			return uid
		}
	}
	return ""
}
