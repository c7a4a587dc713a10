package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// temporary empties /tmp and /var/tmp. The private directories of running services stay, since a
// service would not get another before its next start; entries of unknown users in them are
// removed.
func (c *cleanup) temporary(ctx context.Context) error {
	boot, err := c.m.BootID()
	if err != nil {
		return err
	}
	var all error
	for _, top := range []string{"/tmp", "/var/tmp"} {
		var own []string
		all = errors.Join(all, c.empty(ctx, "temporary", top, machine.Tree{
			Remove: func(e *machine.Entry) bool { return !e.LostAndFound() },
			Enter: func(e *machine.Entry) bool {
				if e.Depth() == 1 && SystemTemporary(e, boot) {
					own = append(own, path.Join(top, e.Name))
					return false
				}
				return true
			},
		}))
		for _, dir := range own {
			all = errors.Join(all, c.empty(ctx, "temporary", dir, machine.Tree{Remove: func(e *machine.Entry) bool {
				return !c.known.UID(e.Stat.Uid)
			}}))
			c.dispose("temporary", dir, taskcatalog.ActionKept, machine.Tally{}, "the system's own")
		}
	}
	return all
}

// SystemTemporary reports whether a directory in /tmp is created by the system at boot or for a
// running service. The owner must be root, so that no other user's directory of the same name
// counts.
func SystemTemporary(e *machine.Entry, boot string) bool {
	if !e.IsDir() || e.Stat.Uid != 0 {
		return false
	}
	switch e.Name {
	case ".X11-unix", ".ICE-unix", ".XIM-unix", ".font-unix", ".Test-unix":
		return true
	case SnapPrivateTmp:
		return OwnDirectory(e)
	}
	return strings.HasPrefix(e.Name, "systemd-private-"+strings.ReplaceAll(boot, "-", "")+"-") && OwnDirectory(e)
}

// SnapPrivateTmp holds a directory for each snap, with the snap's /tmp inside.
const SnapPrivateTmp = "snap-private-tmp"

// OwnDirectory reports whether an entry is a directory that only root may enter.
func OwnDirectory(e *machine.Entry) bool {
	return e.IsDir() && e.Stat.Uid == 0 && e.Stat.Mode&0o077 == 0
}

// ipc removes the System V objects of unknown users, and the entries of /dev/shm and /dev/mqueue,
// except for the baseline's and those of system services.
func (c *cleanup) ipc(ctx context.Context) error {
	objects, err := c.m.SysVIPC()
	for _, o := range objects {
		if c.known.UID(o.UID) && c.known.UID(o.CUID) {
			continue
		}
		name := fmt.Sprintf("sysv/%s/%d", o.Kind, o.ID)
		if removed := machine.RemoveIPC(o); removed != nil {
			c.failed("ipc", name, removed)
			continue
		}
		c.dispose("ipc", name, taskcatalog.ActionRemoved, machine.Tally{Bytes: o.Bytes}, "")
	}
	for _, top := range []string{"/dev/shm", "/dev/mqueue"} {
		err = errors.Join(err, c.emptyAny(ctx, "ipc", top, machine.Tree{Remove: func(e *machine.Entry) bool {
			service := e.Stat.Uid != 0 && e.Stat.Uid < 1000 && c.known.UID(e.Stat.Uid)
			return !service && !(e.Depth() == 1 && c.known.Object(e.Path()))
		}}))
	}
	return err
}

// emptyAny is empty for the kernel's own file systems, which hold objects rather than files on a
// disk.
func (c *cleanup) emptyAny(ctx context.Context, check, top string, t machine.Tree) error {
	t.Fault, t.Kept = func(p string, err error) { c.failed(check, p, err) }, c.kept(check)
	tally, err := c.m.Empty(ctx, top, t)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", top, err)
	}
	c.result.FilesRemoved += tally.Files + tally.Dirs
	c.result.BytesRemoved += tally.Bytes
	if tally.Files+tally.Dirs > 0 {
		c.dispose(check, top, taskcatalog.ActionEmptied, tally, "")
	}
	return nil
}

// butKnown removes everything except the baseline's objects of a kind, with their content. The
// objects are entries of the top directory, or of lost+found in the top directory.
func (c *cleanup) butKnown(kind string) machine.Tree {
	kept := func(e *machine.Entry) bool {
		found := e.Depth() == 2 && path.Base(path.Dir(e.Path())) == "lost+found"
		return (e.Depth() == 1 || found) && c.known.Object(kind+e.Path())
	}
	return machine.Tree{
		Remove: func(e *machine.Entry) bool { return !kept(e) && !e.LostAndFound() },
		Enter:  func(e *machine.Entry) bool { return !kept(e) },
	}
}

// scratchSpace empties the directories that match the scratch patterns, and removes all other
// matches.
func (c *cleanup) scratchSpace(ctx context.Context) error {
	var all error
	for _, name := range c.scratch {
		st, err := c.m.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		switch {
		case err != nil:
			all = errors.Join(all, err)
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			all = errors.Join(all, c.empty(ctx, "scratch", name, c.butKnown("scratch/")))
		default:
			all = errors.Join(all, c.remove(ctx, "scratch", name))
		}
	}
	return all
}

// histories are the files in a home that record typed or executed commands.
var histories = []string{
	".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", ".local/share/fish/fish_history",
	".python_history", ".node_repl_history", ".mysql_history", ".psql_history", ".sqlite_history", ".rediscli_history",
	".lesshst", ".viminfo", ".wget-hsts", ".nv/ComputeCache",
}

// homes removes the directories in /home that are not a known user's, and the histories of known
// users.
func (c *cleanup) homes(ctx context.Context) error {
	known := c.known.Homes()
	var all error
	for _, home := range known {
		for _, name := range histories {
			err := c.remove(ctx, "homes", path.Join(home, name))
			if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
				c.skip("homes", path.Join(home, name), "a link stands in its way, which is not followed")
				continue
			}
			all = errors.Join(all, err)
		}
	}
	if c.known.Base == nil {
		c.skip("homes", "/home", "without a baseline nobody knows whose home is a tenant's")
		return all
	}
	names, err := c.m.Names("/home")
	if err != nil {
		return errors.Join(all, err)
	}
	for _, name := range names {
		home := path.Join("/home", name)
		account := slices.IndexFunc(c.accounts, func(a host.Account) bool { return path.Clean(a.Home) == home })
		holds := slices.ContainsFunc(known, func(k string) bool { return k == home || machine.Under(k, home) })
		switch {
		case holds || c.known.Object("home/"+home):
		case name == "lost+found":
			all = errors.Join(all, c.empty(ctx, "homes", home, machine.Tree{Remove: func(e *machine.Entry) bool { return !c.known.Object("home/" + e.Path()) }}))
		case account >= 0:
			c.dispose("homes", home, taskcatalog.ActionKept, machine.Tally{}, "allocation "+c.accounts[account].AllocationID+" still has its user ("+taskcatalog.ActionRevokeUser+" removes both)")
		default:
			all = errors.Join(all, c.remove(ctx, "homes", home))
		}
	}
	return all
}

// DumpDirs hold only crash and core dumps. dumpDirsOfBaseline may also hold files that the node
// itself needs, such as the kernel that kdump loads.
var (
	DumpDirs           = []string{"/var/crash", "/var/lib/systemd/coredump", "/var/lib/apport/coredump", "/var/lib/systemd/pstore"}
	DumpDirsOfBaseline = []string{"/var/cores", "/var/core", "/var/lib/kdump"}
)

// dumps empties the directories of crash and core dumps, and removes the core files of the kernel's
// core pattern, if the pattern names a fixed directory.
func (c *cleanup) dumps(ctx context.Context) error {
	dirs := DumpDirs
	if c.known.Base != nil {
		dirs = slices.Concat(DumpDirs, DumpDirsOfBaseline)
	}
	var all error
	for _, dir := range dirs {
		all = errors.Join(all, c.empty(ctx, "dumps", dir, c.butKnown("dump/")))
	}
	all = errors.Join(all, c.emptyAny(ctx, "dumps", "/sys/fs/pstore", c.butKnown("dump/")))
	cores, err := CoreDumps(c.m)
	all = errors.Join(all, err)
	for _, name := range cores {
		if !c.known.Object("dump/" + name) {
			all = errors.Join(all, c.remove(ctx, "dumps", name))
		}
	}
	return all
}

// CoreDumps lists the core files that the kernel writes by its core pattern into a fixed directory,
// and the core files in the root directory. After an error there may be others.
func CoreDumps(m *machine.Machine) ([]string, error) {
	patterns := []string{"/core", "/core.*"}
	raw, err := m.ReadFile("/proc/sys/kernel/core_pattern", 4096)
	if p := coreGlob(strings.TrimSpace(string(raw))); err == nil && p != "" {
		patterns = append(patterns, p)
	}
	var cores []string
	for _, pattern := range patterns {
		matches, failed := m.Glob(pattern)
		err = errors.Join(err, failed)
		for _, name := range matches {
			if st, failed := m.Lstat(name); failed == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				cores = append(cores, name)
			}
		}
	}
	return cores, err
}

// coreGlob turns a core pattern with a fixed directory into a glob pattern of its core files:
// /var/cores/core.%e.%p into /var/cores/core.*.*. A core pattern whose last part has no fixed text
// would match anything, and a tenant with root may have set it: the result is then "".
func coreGlob(pattern string) string {
	if !path.IsAbs(pattern) || path.Clean(pattern) != pattern || strings.ContainsAny(pattern, "*?[\\") {
		return ""
	}
	dir, base := path.Split(pattern)
	if strings.Contains(dir, "%") || path.Clean(dir) == "/" || !strings.HasPrefix(base, "core") {
		return ""
	}
	for _, tree := range taskcatalog.SystemTrees {
		if path.Clean(dir) == tree || machine.Under(dir, tree) {
			return ""
		}
	}
	var b strings.Builder
	b.WriteString(dir)
	for i := 0; i < len(base); i++ {
		if base[i] == '%' {
			b.WriteByte('*')
			i++
			continue
		}
		b.WriteByte(base[i])
	}
	return b.String() + "*"
}

// hugepages empties every hugetlbfs: a file there keeps memory in use.
func (c *cleanup) hugepages(ctx context.Context) error {
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	var all error
	for _, mt := range mounts {
		if mt.Type != "hugetlbfs" {
			continue
		}
		all = errors.Join(all, c.emptyAny(ctx, "hugepages", mt.Point, c.butKnown("hugepages/")))
	}
	return all
}
