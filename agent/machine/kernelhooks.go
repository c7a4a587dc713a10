package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
)

// BinaryFormats lists the interpreters registered with binfmt_misc, each as name and digest of its
// description. The list is empty if binfmt_misc is not mounted; the look itself mounts nothing.
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

func shortDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
