package taskcatalog

import (
	"path"
	"slices"
	"strings"
)

// SystemTrees hold the system itself: nothing at any depth of them is emptied.
var SystemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr"}

// systemTops may not be scratch themselves.
var systemTops = []string{"/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/lib", "/var/log", "/var/spool", "/var/cache", "/var/tmp"}

// ScratchReaches names the directory of the system that emptying the scratch
// directories of a pattern would reach, or nothing. A pattern is one of
// path.Match, absolute and plain; a name is one, too.
func ScratchReaches(pattern string) string {
	for _, top := range systemTops {
		if ok, _ := path.Match(pattern, top); ok {
			return top
		}
	}
	parts := strings.Split(pattern, "/")
	for _, tree := range slices.Concat(SystemTrees, []string{"/var/lib/dpkg", "/var/lib/systemd"}) {
		// Either of the two may be beneath the other: the shorter decides.
		of := strings.Split(tree, "/")
		n := min(len(parts), len(of))
		if ok, _ := path.Match(strings.Join(parts[:n], "/"), strings.Join(of[:n], "/")); ok {
			return tree
		}
	}
	return ""
}
