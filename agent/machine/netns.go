package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// netnsDirs are the directories of named network namespaces.
var netnsDirs = []string{"/run/netns", "/run/docker/netns"}

// NetNamespaces lists the paths of named network namespaces.
func (m *Machine) NetNamespaces() ([]string, error) {
	var all []string
	for _, dir := range netnsDirs {
		names, err := m.Names(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot list network namespaces: %w", err)
		}
		for _, name := range names {
			all = append(all, path.Join(dir, name))
		}
	}
	return all, nil
}

// RemoveNetNamespace removes the name of a network namespace. The namespace itself ends with its
// last process.
func (m *Machine) RemoveNetNamespace(name string) error {
	// A name left behind by a crash is a plain file, not a mount.
	if err := m.Detach(name); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if !slices.Contains(netnsDirs, path.Dir(name)) {
		return nil // the path covered by the mount is no name of a namespace
	}
	d, err := m.OpenDirStrict(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Unlinkat(int(d.Fd()), path.Base(name), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove network namespace %s: %w", name, err)
	}
	return nil
}
