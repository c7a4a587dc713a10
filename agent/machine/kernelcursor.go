package machine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// KernelSince is what the kernel logged after a place in its log.
type KernelSince struct {
	Lines []string
	// Next is the place behind the last record. It counts the records of this boot.
	Next uint64
	// Lost is how many records after the place were overwritten before they could be read.
	Lost uint64
}

// KernelLogSince reads what the kernel itself logged from a place on, and keeps the lines for which keep
// reports true. The place is 0 for the oldest record that is there, or the Next of an earlier call in the
// same boot. It holds nothing open afterwards.
func (m *Machine) KernelLogSince(place uint64, keep func(text string) bool) (KernelSince, error) {
	fd, err := openat2(int(m.root.Fd()), "dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0, resolveTrusted)
	if err != nil {
		return KernelSince{}, fmt.Errorf("cannot open the kernel's log: %w", err)
	}
	defer unix.Close(fd)
	return kernelSince(func(record []byte) (int, error) { return unix.Read(fd, record) }, place, keep)
}

func kernelSince(read func([]byte) (int, error), place uint64, keep func(string) bool) (KernelSince, error) {
	s := KernelSince{Next: place}
	known := place > 0
	record := make([]byte, 16<<10)
	for range 10 * maxKernelLog {
		n, err := read(record)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return s, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // overwritten: the next record's number says how many
			known = known || errors.Is(err, unix.EPIPE) && s.Next > 0
			continue
		case err != nil:
			return s, fmt.Errorf("cannot read the kernel's log: %w", err)
		case n == 0:
			return s, errors.New("the kernel's log has an end, so the file is not the kernel's log")
		}
		text, own, err := parseKernelRecord(record[:n])
		if err != nil {
			return s, err
		}
		at, err := strconv.ParseUint(string(bytes.SplitN(record[:n], []byte(","), 3)[1]), 10, 63)
		if err != nil {
			return s, errors.New("cannot parse the number of a record of the kernel's log")
		}
		if at < place {
			continue // read before
		}
		if known && at > s.Next {
			s.Lost += at - s.Next
		}
		known, s.Next = true, at+1
		if own && keep(text) {
			s.Lines = append(s.Lines, text)
		}
	}
	return s, fmt.Errorf("the kernel's log grew by more than %d lines", 10*maxKernelLog)
}
