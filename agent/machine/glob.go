package machine

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Glob lists the paths that match an absolute pattern such as /share*/scratch,
// sorted. Links are never walked through; one that matches with the last part
// is listed, for the caller to refuse.
func (m *Machine) Glob(pattern string) ([]string, error) {
	found := []string{"/"}
	for _, part := range strings.Split(strings.Trim(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			d, err := m.OpenDirStrict(dir)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				continue
			}
			if err != nil {
				return nil, err
			}
			names, err := d.Readdirnames(-1)
			d.Close()
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				ok, err := path.Match(part, name)
				if err != nil {
					return nil, err
				}
				if ok {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		found = next
	}
	slices.Sort(found)
	return found, nil
}
