package machine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxKernelLog bounds how many lines are kept.
const maxKernelLog = 20_000

// KernelTime is the clock that the kernel's log is written by.
func KernelTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("cannot read the kernel's clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// KernelLog reads what the kernel logged since a KernelTime. It fails where lines
// of that time are lost already.
func (m *Machine) KernelLog(since time.Duration) ([]string, error) {
	fd, err := openat2(int(m.root.Fd()), "dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0, resolveTrusted)
	if err != nil {
		return nil, fmt.Errorf("cannot open the kernel's log: %w", err)
	}
	defer unix.Close(fd)
	var lines []string
	record := make([]byte, 16<<10)
	for len(lines) < maxKernelLog {
		n, err := unix.Read(fd, record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return lines, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPIPE):
			if len(lines) > 0 {
				return nil, errors.New("the kernel logged more than its buffer holds")
			}
			continue // what is overwritten is older than all that is left
		case err != nil:
			return nil, fmt.Errorf("cannot read the kernel's log: %w", err)
		}
		at, text, err := parseKernelRecord(record[:n])
		if err != nil {
			return nil, err
		}
		if at >= since {
			lines = append(lines, text)
		}
	}
	return nil, fmt.Errorf("the kernel logged more than %d lines", maxKernelLog)
}

// parseKernelRecord reads "priority,sequence,microseconds,flags;text", and leaves
// out the lines of the dictionary below it.
func parseKernelRecord(raw []byte) (time.Duration, string, error) {
	head, text, ok := bytes.Cut(raw, []byte(";"))
	fields := bytes.Split(head, []byte(","))
	if !ok || len(fields) < 3 {
		return 0, "", errors.New("cannot parse a record of the kernel's log")
	}
	us, err := strconv.ParseInt(string(fields[2]), 10, 64)
	if err != nil || us < 0 || us > 1<<53 {
		return 0, "", errors.New("cannot parse the time of a record of the kernel's log")
	}
	text, _, _ = bytes.Cut(text, []byte("\n"))
	return time.Duration(us) * time.Microsecond, string(text), nil
}
