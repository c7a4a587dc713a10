// Package regular reads files that a person names. A named pipe that nobody
// writes to would hold its reader in open(2), where no signal that the process
// catches ends it. So a file is opened without blocking, and anything but a
// regular file is refused.
package regular

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrNotRegular is the error of a pipe, a device, a socket or a directory.
var ErrNotRegular = errors.New("it is not a regular file")

// Open opens a regular file for reading. Links are followed.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads a regular file of at most so many bytes.
func Read(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(raw) > most {
		return nil, fmt.Errorf("%s: it is larger than %d bytes", path, most)
	}
	return raw, err
}
