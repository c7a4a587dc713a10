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

// Read reads the files of a set, or files of definitions: named files, and of a directory its *.yaml and *.yml in the order
// of their names. The compiled-in minimal.yaml is a set of its own, so a directory is read without
// it.
func Read(names ...string) ([]File, error) {
	var all []File
	left := int64(MaxSize) + 1 // one byte beyond the limit, so that Parse reports the excess
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, unreadable(err)
		}
		files, err := filesAt(name, info.IsDir(), left)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			left -= int64(len(f.Text))
		}
		all = append(all, files...)
	}
	return all, nil
}

func unreadable(err error) error {
	return taskcatalog.Errorf(CodeUnreadable, "cannot read the files: %v", err)
}

// filesAt reads a file, or the files of a directory, of at most so many bytes in total. A link in a
// directory cannot lead outside the directory: messages about the set would show the content of the
// link's target.
func filesAt(name string, isDir bool, most int64) ([]File, error) {
	if !isDir {
		text, err := readRegular(os.OpenFile, name, most)
		if err != nil {
			return nil, unreadable(err)
		}
		return []File{{Name: name, Text: text}}, nil
	}
	names, err := yamlIn(name)
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
		text, err := readRegular(dir.OpenFile, n, most)
		if err != nil {
			return nil, unreadable(err)
		}
		most -= int64(len(text))
		files = append(files, File{Name: filepath.Join(name, n), Text: text})
	}
	return files, nil
}

func yamlIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read the files: %v", err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") &&
			e.Name() != minimalFile {
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
