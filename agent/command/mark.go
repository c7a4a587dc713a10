package command

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// markName is the variable that identifies a run's processes, in whatever group or session.
const markName = "HOSTLER_RUN="

func newMark() string { return markName + rand.Text() }

// endMarked kills every process with the mark in its environment. Processes are held by
// descriptors, so that a reused number hits no other process.
func endMarked(mark string) {
	for range 10 { // a killed process may have forked meanwhile
		found := false
		for _, pid := range processes() {
			if endIfMarked(pid, mark) {
				found = true
			}
		}
		if !found {
			return
		}
	}
}

func processes() (pids []int) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func endIfMarked(pid int, mark string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	environ, err := readStart("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+mark+"\x00")) {
		return false
	}
	return !errors.Is(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), unix.ESRCH)
}

// readStart reads as much of an environment as the agent sets, with room to spare: a tenant's
// environment may be megabytes.
func readStart(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}
