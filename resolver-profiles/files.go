package profiles

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// CodeUnreadable is the code of a file or directory that cannot be read.
const CodeUnreadable taskcatalog.Code = "unreadable"

// Read reads the files of a set: files as they are named, of a directory its
// *.yaml and *.yml in the order of their names. The compiled-in minimal.yaml is a
// set of its own, so a directory is read without it.
func Read(names ...string) ([]File, error) {
	var all []File
	left := int64(MaxSize) + 1 // one byte more than is taken: Parse says so
	for _, name := range names {
		parts := []string{name}
		if info, err := os.Stat(name); err != nil {
			return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read profiles: %v", err)
		} else if info.IsDir() {
			if parts, err = yamlIn(name); err != nil {
				return nil, err
			}
		}
		for _, part := range parts {
			text, err := readFile(part, left)
			if err != nil {
				return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read profiles: %v", err)
			}
			left -= int64(len(text))
			all = append(all, File{Name: part, Text: text})
		}
	}
	return all, nil
}

func yamlIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read profiles: %v", err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") && e.Name() != minimalFile {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, taskcatalog.Errorf(CodeUnreadable, "cannot read profiles: %s holds no *.yaml", dir)
	}
	slices.Sort(names)
	return names, nil
}

func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}
