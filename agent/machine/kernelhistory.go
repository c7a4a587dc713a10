package machine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// KernelLine is a line that the kernel itself logged in this boot.
type KernelLine struct {
	Since time.Duration // of the boot
	Text  string
}

// KernelHistory reads the lines that the kernel's log buffer still holds, oldest first, and returns
// those for which keep reports true. Lines overwritten during the read are missing from the result
// without an error.
func (m *Machine) KernelHistory(keep func(text string) bool) ([]KernelLine, error) {
	fd, err := openat2(int(m.root.Fd()), "dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0, resolveTrusted)
	if err != nil {
		return nil, fmt.Errorf("cannot open the kernel's log: %w", err)
	}
	defer unix.Close(fd)
	return history(func(record []byte) (int, error) { return unix.Read(fd, record) }, keep)
}

func history(read func([]byte) (int, error), keep func(string) bool) ([]KernelLine, error) {
	var lines []KernelLine
	record := make([]byte, 16<<10)
	for range 10 * maxKernelLog {
		n, err := read(record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return lines, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // overwritten: the next read returns the oldest remaining record
			continue
		case err != nil:
			return lines, fmt.Errorf("cannot read the kernel's log: %w", err)
		case n == 0:
			return lines, nil
		}
		text, own, err := parseKernelRecord(record[:n])
		if err != nil {
			return lines, err
		}
		if own && keep(text) {
			fields := bytes.SplitN(record[:n], []byte(","), 4)
			at, _ := strconv.ParseInt(string(fields[2]), 10, 64)
			lines = append(lines, KernelLine{Since: time.Duration(at) * time.Microsecond, Text: text})
		}
	}
	return lines, nil
}
