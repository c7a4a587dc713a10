package profiles

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/taskcatalog"
)

// CodeUnreadable is the code of a file or directory that cannot be read.
const CodeUnreadable taskcatalog.Code = "unreadable"

// Read reads the files of a set: named files, and of a directory its *.yaml and *.yml in the order
// of their names. The compiled-in minimal.yaml is a set of its own, so a directory is read without
// it.
func Read(names ...string) ([]File, error) { return read(names, true) }

// ReadEach reads files of which each stands for itself, as Read does. The bound is one of each file, and a
// directory is read whole.
func ReadEach(names ...string) ([]File, error) { return read(names, false) }

// read reads one byte beyond the limit, so that whoever parses reports the excess.
func read(names []string, ofOneSet bool) (all []File, err error) {
	b := &bound{left: MaxSize + 1, ofOneSet: ofOneSet}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, unreadable(err)
		}
		files, err := b.filesAt(name, info.IsDir())
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// bound is how many bytes of files are read: of all together, or of each.
type bound struct {
	left     int64
	ofOneSet bool
}

func (b *bound) took(text []byte) {
	if b.ofOneSet {
		b.left -= int64(len(text))
	}
}

func unreadable(err error) error {
	return taskcatalog.Errorf(CodeUnreadable, "cannot read the files: %v", err)
}

// filesAt reads a file, or the files of a directory. A link in a
// directory cannot lead outside the directory: messages about the set would show the content of the
// link's target.
func (b *bound) filesAt(name string, isDir bool) ([]File, error) {
	if !isDir {
		text, err := readRegular(os.OpenFile, name, b.left)
		if err != nil {
			return nil, unreadable(err)
		}
		b.took(text)
		return []File{{Name: name, Text: text}}, nil
	}
	names, err := b.yamlIn(name)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(name)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = dir.Close() }()
	var files []File
	for _, n := range names {
		text, err := readRegular(dir.OpenFile, n, b.left)
		if err != nil {
			return nil, unreadable(err)
		}
		b.took(text)
		files = append(files, File{Name: filepath.Join(name, n), Text: text})
	}
	return files, nil
}

func (b *bound) yamlIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") &&
			!(b.ofOneSet && e.Name() == minimalFile) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read the files: %s holds no *.yaml", dir)
	}
	slices.Sort(names)
	return names, nil
}

// readRegular opens without blocking: a pipe without a writer would block it.
func readRegular(open func(name string, flag int, perm os.FileMode) (*os.File, error), name string, most int64) ([]byte, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
