package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxGlob bounds how many paths a pattern may match.
const maxGlob = 10_000

// Glob lists the paths that match an absolute pattern such as /share*/scratch, sorted. Links are
// never walked through; a link that matches the last part is listed, so that the caller can refuse
// it. A directory that cannot be read is an error, returned with the matches found elsewhere.
func (m *Machine) Glob(pattern string) ([]string, error) {
	found := []string{"/"}
	var failed error
	for _, part := range strings.Split(strings.Trim(path.Clean(pattern), "/"), "/") {
		if _, err := path.Match(part, ""); err != nil {
			return nil, err
		}
		var next []string
		for _, dir := range found {
			matches, err := m.matching(dir, part, maxGlob-len(next))
			next, failed = append(next, matches...), errors.Join(failed, err)
		}
		found = next
	}
	slices.Sort(found)
	return found, failed
}

// matching lists the entries of a directory that match part, at most that many. Names are read in
// pieces: a user who may write in the directory can create millions.
func (m *Machine) matching(dir, part string, most int) (found []string, err error) {
	d, err := m.OpenDirStrict(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if ok, _ := path.Match(part, name); !ok {
				continue
			}
			if len(found) >= most {
				return found, fmt.Errorf("more than %d paths match in %s and beside it", maxGlob, dir)
			}
			found = append(found, path.Join(dir, name))
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, &fs.PathError{Op: "readdir", Path: dir, Err: err}
		}
	}
}
