package command

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// Bounds of the way to a program.
const (
	maxLinks      = 40
	maxComponents = 256
)

// walker walks from the machine's root to a program through descriptors alone: each judged
// component is the component that is used, even if the path changes meanwhile.
type walker struct {
	name   string            // as asked for
	banned func(string) bool // forbidden names of the last component
	stack  []*os.File        // the opened folders, the root first
	links  int
	steps  int
}

// walk opens a file by an absolute path below root. The file, each folder and each link on the way
// must be root's alone. walk opens the file with O_PATH.
func walk(root *os.File, name string, banned func(string) bool) (*os.File, error) {
	w := &walker{name: name, banned: banned}
	if !path.IsAbs(name) {
		return nil, w.fail(CodeExecutableRefused, "the path is not absolute")
	}
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, w.fail(CodeExecutableMissing, "%v", err)
	}
	w.stack = []*os.File{os.NewFile(uintptr(fd), "")}
	defer w.close()
	if err := w.judge(w.stack[0], "/", unix.S_IFDIR); err != nil {
		return nil, err
	}
	return w.follow(split(name))
}

func (w *walker) close() {
	for _, f := range w.stack {
		_ = f.Close()
	}
}

func (w *walker) fail(code taskcatalog.Code, format string, args ...any) error {
	return taskcatalog.Errorf(code, "cannot run %s: %s", taskcatalog.Clean(w.name, 200),
		taskcatalog.Clean(fmt.Sprintf(format, args...), 300))
}

// where returns the path so far, for messages.
func (w *walker) where(part string) string {
	at := ""
	for _, f := range w.stack[1:] {
		at += "/" + f.Name()
	}
	if part != "" {
		at += "/" + part
	}
	return at
}

func (w *walker) follow(parts []string) (*os.File, error) {
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		if w.steps++; w.steps > maxComponents {
			return nil, w.fail(CodeExecutableRefused, "the path is longer than %d components", maxComponents)
		}
		if part == ".." { // from a link: a profile has none
			w.up()
			continue
		}
		f, kind, err := w.open(part)
		if err != nil {
			return nil, err
		}
		switch {
		case kind == unix.S_IFLNK:
			target, err := w.link(f, part, len(parts) == 0)
			_ = f.Close()
			if err != nil {
				return nil, err
			}
			for path.IsAbs(target) && len(w.stack) > 1 {
				w.up()
			}
			parts = append(split(target), parts...)
		case len(parts) > 0:
			w.stack = append(w.stack, f) // closed with the walk
			if err := w.judge(f, w.where(""), unix.S_IFDIR); err != nil {
				return nil, err
			}
		default:
			err := w.judge(f, w.where(part), unix.S_IFREG)
			if err == nil && w.banned(part) {
				err = w.fail(CodeExecutableRefused, "it is %s, which runs other programs", w.where(part))
			}
			if err != nil {
				_ = f.Close()
				return nil, err
			}
			return f, nil
		}
	}
	return nil, w.fail(CodeExecutableRefused, "it is a folder")
}

// up goes to the folder above, and stays in the root.
func (w *walker) up() {
	if last := len(w.stack) - 1; last > 0 {
		_ = w.stack[last].Close()
		w.stack = w.stack[:last]
	}
}

// open opens a component itself, even if it is a link.
func (w *walker) open(part string) (*os.File, uint32, error) {
	here := w.stack[len(w.stack)-1]
	fd, err := unix.Openat(int(here.Fd()), part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, w.fail(CodeExecutableMissing, "%s: %v", w.where(part), err)
	}
	f := os.NewFile(uintptr(fd), part)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, 0, w.fail(CodeExecutableMissing, "%s: %v", w.where(part), err)
	}
	return f, st.Mode & unix.S_IFMT, nil
}

// link reads a link of root's. The link's mode is meaningless: a user with write access to the
// folder may replace the link, and the folder was judged.
func (w *walker) link(f *os.File, part string, last bool) (string, error) {
	if w.links++; w.links > maxLinks {
		return "", w.fail(CodeExecutableRefused, "more than %d links lead to it", maxLinks)
	}
	if last && w.banned(part) {
		return "", w.fail(CodeExecutableRefused, "it is %s, which runs other programs", w.where(part))
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", w.fail(CodeExecutableMissing, "%s: %v", w.where(part), err)
	}
	if st.Uid != 0 {
		return "", w.fail(CodeExecutableInsecure, "the link %s belongs to uid %d (chown -h root)", w.where(part), st.Uid)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return "", w.fail(CodeExecutableMissing, "%s: %v", w.where(part), err)
	}
	return string(buf[:n]), nil
}

// judge refuses files that are not root's alone.
func (w *walker) judge(f *os.File, where string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return w.fail(CodeExecutableMissing, "%s: %v", where, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != kind && kind == unix.S_IFDIR:
		return w.fail(CodeExecutableMissing, "%s is not a folder", where)
	case st.Mode&unix.S_IFMT != kind:
		return w.fail(CodeExecutableRefused, "%s is not a regular file", where)
	case st.Uid != 0:
		return w.fail(CodeExecutableInsecure, "%s belongs to uid %d (chown root)", where, st.Uid)
	// With an access list, the group bits are its mask: the list grants no more than these bits.
	case st.Mode&0o022 != 0:
		return w.fail(CodeExecutableInsecure, "%s has mode %04o, which lets others write it (chmod go-w)", where, st.Mode&0o7777)
	}
	return nil
}

// split returns a path's components, without empty ones and ".".
func split(name string) []string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}
