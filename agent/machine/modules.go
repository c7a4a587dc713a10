package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is a loaded kernel module.
type Module struct {
	Name   string
	Taints string // letters of the module's kernel taints: O, E, P …
	Hidden bool   // in sysfs, not in the list of modules
	File   string // from the module index of the running kernel; "" if the index has no such module
}

// Modules lists the loaded modules.
func (m *Machine) Modules() ([]Module, error) {
	dirs, err := m.namesOf("/sys/module")
	if err != nil {
		return nil, fmt.Errorf("cannot list modules: %w", err)
	}
	raw, err := m.ReadFile("/proc/modules", 4<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without modules has no list
		return nil, fmt.Errorf("cannot list modules: %w", err)
	}
	all, err := parseModules(string(raw))
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for _, mod := range all {
		listed[mod.Name] = true
	}
	for _, name := range dirs {
		// Only a loaded module that is not built in has a state.
		if has, err := m.Has(path.Join("/sys/module", name, "initstate")); err != nil {
			return nil, err
		} else if has && !listed[name] {
			all = append(all, Module{Name: name, Hidden: true})
		}
	}
	files, err := m.moduleFiles()
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].File = files[all[i].Name]
	}
	return all, nil
}

// namesOf is Names, sorted, where a missing directory is an error.
func (m *Machine) namesOf(dir string) ([]string, error) {
	d, err := m.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func parseModules(text string) ([]Module, error) {
	var all []Module
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, errors.New("cannot parse /proc/modules: too few fields")
		}
		mod := Module{Name: f[0]}
		if last := f[len(f)-1]; strings.HasPrefix(last, "(") {
			mod.Taints = strings.Trim(last, "()+-")
		}
		all = append(all, mod)
	}
	return all, nil
}

// moduleFiles maps module names to files by depmod's index.
func (m *Machine) moduleFiles() (map[string]string, error) {
	release, err := m.ReadFile("/proc/sys/kernel/osrelease", 256)
	if err != nil {
		return nil, fmt.Errorf("cannot read the kernel's release: %w", err)
	}
	dir := path.Join("/lib/modules", strings.TrimSpace(string(release)))
	raw, err := m.ReadFile(dir+"/modules.dep", 16<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the index of modules: %w", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		file, _, _ := strings.Cut(line, ":")
		name, _, _ := strings.Cut(path.Base(file), ".ko")
		files[strings.ReplaceAll(name, "-", "_")] = path.Join(dir, file)
	}
	return files, nil
}
