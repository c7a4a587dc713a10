package taskcatalog

import (
	"path"
	"slices"
	"strings"
)

// SystemTrees hold the system itself. Nothing at any depth below them is emptied.
var SystemTrees = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin",
	"/sys", "/usr",
}

// systemTops may not be scratch directories themselves.
var systemTops = []string{
	"/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/lib", "/var/log", "/var/spool",
	"/var/cache", "/var/tmp",
}

// ScratchReaches returns the system directory that a cleanup of the scratch pattern would reach, or
// the empty string. The pattern is a path.Match pattern, absolute and clean; a plain path is a
// valid pattern.
func ScratchReaches(pattern string) string {
	for _, top := range systemTops {
		if ok, _ := path.Match(pattern, top); ok {
			return top
		}
	}
	parts := strings.Split(pattern, "/")
	for _, tree := range slices.Concat(SystemTrees, []string{"/var/lib/dpkg", "/var/lib/systemd"}) {
		// Either path may lie beneath the other: compare the length of the shorter.
		of := strings.Split(tree, "/")
		n := min(len(parts), len(of))
		if ok, _ := path.Match(strings.Join(parts[:n], "/"), strings.Join(of[:n], "/")); ok {
			return tree
		}
	}
	return ""
}
