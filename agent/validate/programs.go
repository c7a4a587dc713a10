package validate

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// lookPrograms compares the files in program directories that no package brought.
func lookPrograms(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.unpackaged(ctx, []string{"/usr", "/opt"}, func(name string, mode uint32) bool {
		return strings.HasPrefix(name, "/usr/lib/hostler-agent/") || strings.HasPrefix(name, "/usr/local/lib/systemd/") ||
			noProgram(name, mode)
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	mine := func(name string) bool { return rowOf(name) == "programs" && !v.packaged(name) }
	return v.compareFiles("programs", records, mine, func(string) string { return "programs" }), nil
}

// noProgram reports whether a path is documentation, a cache of the desktop, or an interpreter's
// compiled cache: nothing runs a plain file or a link there.
func noProgram(name string, mode uint32) bool {
	if path.Base(path.Dir(name)) == "__pycache__" {
		return passive(mode) && slices.Contains([]string{".pyc", ".nbi", ".nbc"}, path.Ext(name))
	}
	quiet := documentation(name) || slices.ContainsFunc([]string{"/usr/share/mime/", "/usr/share/icons/", "/usr/share/fonts/"},
		func(dir string) bool { return strings.HasPrefix(name, dir) })
	return quiet && (passive(mode) || mode&unix.S_IFMT == unix.S_IFLNK)
}
