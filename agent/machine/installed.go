package machine

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// IsInstalled reports whether file is a name of the installed file, a path below /usr. Some systems
// name the file by /lib, which is a link to /usr/lib.
func (m *Machine) IsInstalled(file, installed string) (bool, error) {
	if "/usr"+file != installed {
		return file == installed, nil
	}
	to, err := m.Readlink("/lib")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL): // no /lib, or /lib is a directory
		return false, nil
	case err != nil:
		return false, err
	}
	return path.Join("/", to) == "/usr/lib", nil
}
