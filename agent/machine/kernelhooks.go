package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// BinaryFormats lists the interpreters that binfmt_misc starts, each as name
// and digest of its description. Where it is not mounted there is none; the
// look itself mounts nothing.
func (m *Machine) BinaryFormats() ([]string, error) {
	mounts, err := m.Mounts()
	if err != nil {
		return nil, err
	}
	const dir = "/proc/sys/fs/binfmt_misc"
	mounted := false
	for _, mount := range mounts {
		mounted = mounted || mount.Point == dir && mount.Type == "binfmt_misc"
	}
	if !mounted {
		return nil, nil
	}
	names, err := m.namesOf(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list binary formats: %w", err)
	}
	var all []string
	for _, name := range names {
		if name == "register" || name == "status" {
			continue
		}
		raw, err := m.ReadFile(path.Join(dir, name), 64<<10)
		if err != nil {
			return nil, fmt.Errorf("cannot list binary formats: %w", err)
		}
		all = append(all, name+" "+shortDigest(raw))
	}
	return all, nil
}

// bootVariable is an EFI variable that decides what is booted: an entry, their
// order, or what only the next boot starts. BootCurrent changes by itself.
var bootVariable = regexp.MustCompile(`^Boot([0-9A-F]{4}|Order|Next)-8be4df61-93ca-11d2-aa0d-00e098032b8c$`)

// BootEntries lists the firmware's boot entries with their digests. A machine
// without EFI has none.
func (m *Machine) BootEntries() ([]string, error) {
	const dir = "/sys/firmware/efi/efivars"
	names, err := m.Names(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list boot entries: %w", err)
	}
	var all []string
	for _, name := range names {
		if !bootVariable.MatchString(name) {
			continue
		}
		raw, err := m.ReadFile(path.Join(dir, name), 64<<10)
		if err != nil {
			return nil, fmt.Errorf("cannot list boot entries: %w", err)
		}
		short, _, _ := strings.Cut(name, "-")
		all = append(all, short+" "+shortDigest(raw))
	}
	return all, nil
}

func shortDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
