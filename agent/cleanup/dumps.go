package cleanup

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// DumpDirs hold only crash and core dumps. DumpDirsOfBaseline may also hold files that the node
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
		all = errors.Join(all, c.empty(ctx, "dumps", dir, c.exceptKnown("dump/")))
	}
	all = errors.Join(all, c.emptyAny(ctx, "dumps", "/sys/fs/pstore", c.exceptKnown("dump/")))
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
