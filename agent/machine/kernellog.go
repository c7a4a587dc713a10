package machine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxKernelLog bounds how many records are read at a time.
const maxKernelLog = 20_000

// KernelLog reads the kernel's log from the moment it was opened. It holds a position in the log
// rather than a time: the kernel dates log records by a clock of its own, which no process can
// read.
type KernelLog struct {
	fd   int
	read func(record []byte) (int, error)
}

// OpenKernelLog starts at the end of the log.
func (m *Machine) OpenKernelLog() (*KernelLog, error) {
	fd, err := openat2(int(m.root.Fd()), "dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0, resolveTrusted)
	if err != nil {
		return nil, fmt.Errorf("cannot open the kernel's log: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot go to the end of the kernel's log: %w", err)
	}
	return &KernelLog{fd: fd, read: func(record []byte) (int, error) { return unix.Read(fd, record) }}, nil
}

// Close closes the log.
func (l *KernelLog) Close() error { return unix.Close(l.fd) }

// Lines returns the kernel's lines since OpenKernelLog or the last call of Lines. Lines fails if
// the kernel has already overwritten some of them.
func (l *KernelLog) Lines() ([]string, error) {
	var lines []string
	record := make([]byte, 16<<10)
	for range maxKernelLog {
		n, err := l.read(record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return lines, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPIPE):
			return nil, errors.New("the kernel logged more than its buffer holds: lines are lost")
		case err != nil:
			return nil, fmt.Errorf("cannot read the kernel's log: %w", err)
		case n == 0:
			return nil, errors.New("the kernel's log has an end, so the file is not the kernel's log")
		}
		text, own, err := parseKernelRecord(record[:n])
		if err != nil {
			return nil, err
		}
		if own {
			lines = append(lines, text)
		}
	}
	return nil, fmt.Errorf("the kernel's log grew by more than %d lines", maxKernelLog)
}

// parseKernelRecord reads "priority,sequence,microseconds,flags;text", and leaves out the
// dictionary lines below. own reports whether the kernel itself wrote the record: a process's
// record never has the kernel's facility, 0.
func parseKernelRecord(raw []byte) (text string, own bool, err error) {
	head, rest, ok := bytes.Cut(raw, []byte(";"))
	fields := bytes.Split(head, []byte(","))
	if !ok || len(fields) < 3 {
		return "", false, errors.New("cannot parse a record of the kernel's log")
	}
	priority, err := strconv.ParseUint(string(fields[0]), 10, 32)
	if err != nil {
		return "", false, errors.New("cannot parse the priority of a record of the kernel's log")
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(line), priority>>3 == 0, nil
}
