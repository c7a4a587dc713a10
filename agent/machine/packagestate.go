package machine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// PackageState is what dpkg records of a package, whether its files are installed or not.
type PackageState struct {
	Name, Arch, Version string
	// Want is what was asked for (install, hold, …). Error is ok, or reinstreq after an unpacking that
	// broke off. State is installed, unpacked, half-configured and the like.
	Want, Error, State string
}

// Installed reports whether the package is there, whole and configured.
func (p PackageState) Installed() bool { return p.Error == "ok" && p.State == "installed" }

// Settled reports whether dpkg has nothing left to do for the package.
func (p PackageState) Settled() bool {
	return p.Error == "ok" && (p.State == "installed" || p.State == "config-files" || p.State == "not-installed")
}

// PackageStates lists the packages that dpkg knows. interrupted: dpkg was cut off, and its list is
// not the last word. A machine without dpkg has an error that is fs.ErrNotExist.
func (m *Machine) PackageStates() (all []PackageState, interrupted bool, err error) {
	raw, err := m.ReadFile(dpkgDir+"/status", 128<<20)
	if err != nil {
		return nil, false, fmt.Errorf("cannot list packages: %w", err)
	}
	names, err := m.Names(dpkgDir + "/updates")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("cannot list packages: %w", err)
	}
	interrupted = slices.ContainsFunc(names, func(name string) bool { return strings.Trim(name, "0123456789") == "" })
	all, err = parsePackageStates(raw)
	return all, interrupted, err
}

func parsePackageStates(raw []byte) ([]PackageState, error) {
	var all []PackageState
	var p PackageState
	flush := func() error {
		if p == (PackageState{}) {
			return nil
		}
		if p.Name == "" || p.State == "" {
			return fmt.Errorf("cannot parse %s/status: a record without package or status", dpkgDir)
		}
		all, p = append(all, p), PackageState{}
		return nil
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if err := flush(); err != nil {
				return nil, err
			}
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Package":
			p.Name = value
		case "Architecture":
			p.Arch = value
		case "Version":
			p.Version = value
		case "Status":
			words := strings.Fields(value)
			if len(words) != 3 {
				return nil, fmt.Errorf("cannot parse %s/status: a status of %d words", dpkgDir, len(words))
			}
			p.Want, p.Error, p.State = words[0], words[1], words[2]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot parse %s/status: %w", dpkgDir, err)
	}
	return all, flush()
}
