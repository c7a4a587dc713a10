package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process as /proc shows it. The process's argv and environment are never read: they
// are the tenant's.
type Process struct {
	PID     int
	PPID    int
	Group   int      // process group; -1 in a process that is just ending
	Session int      // as Group
	Name    string   // comm: chosen by the process itself
	State   string   // one letter: D is uninterruptible sleep, Z a zombie
	Start   uint64   // clock ticks since boot: pid and start together identify a process
	UIDs    []uint32 // real, effective, saved, file system
	Kernel  bool     // a kernel thread
	Threads int
	// Unread says why the process could not be looked at. Then only PID is known, and the process
	// may be anybody's. Nil for most processes.
	Unread error
}

// Has reports whether the process has uid as any of its four user ids.
func (p Process) Has(uid uint32) bool { return slices.Contains(p.UIDs, uid) }

// Ended reports whether no thread of the process runs any more. A process whose first thread ended
// is a zombie, but goes on as long as another thread runs.
func (p Process) Ended() bool { return p.State == "X" || p.State == "Z" && p.Threads <= 1 }

const pfKthread = 0x00200000

// Processes lists all processes of this PID namespace and of every PID namespace below. A process
// that ends meanwhile is left out. A process that cannot be looked at is listed as Unread, so that
// it does not hide the others.
func (m *Machine) Processes() ([]Process, error) {
	names, err := m.Names("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			continue
		}
		p, err := m.process(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			p = Process{PID: pid, Unread: fmt.Errorf("cannot look at process %d: %w", pid, err)}
		}
		all = append(all, p)
	}
	return all, nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func (m *Machine) process(pid int) (Process, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := m.ReadFile(dir+"/stat", 4096)
	if err != nil {
		return Process{}, err
	}
	p, err := parseProcStat(stat)
	if err != nil {
		return Process{}, err
	}
	// The ids are near the beginning. The rest has no bound: the list of groups alone may have
	// 65,536 entries.
	status, err := m.readHead(dir+"/status", 4096)
	if err != nil {
		return Process{}, err
	}
	p.UIDs, err = parseStatusUIDs(status)
	return p, err
}

// parseProcStat reads /proc/PID/stat. The command name stands in parentheses and may hold any byte,
// parentheses and line breaks too. Therefore the fields after the name are searched from the last
// closing parenthesis.
func parseProcStat(raw []byte) (Process, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return Process{}, errors.New("cannot parse /proc/PID/stat: no command name")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	rest := strings.Fields(string(raw[end+1:]))
	if err != nil || len(rest) < 20 || len(rest[0]) != 1 {
		return Process{}, errors.New("cannot parse /proc/PID/stat: too few fields")
	}
	p := Process{PID: pid, Name: string(raw[open+1 : end]), State: rest[0]}
	var err1, err2 error
	p.Group, err1 = strconv.Atoi(rest[2])
	p.Session, err2 = strconv.Atoi(rest[3])
	if err := errors.Join(err1, err2); err != nil {
		return Process{}, errors.New("cannot parse /proc/PID/stat: no group and session")
	}
	var flags uint64
	for _, f := range []struct {
		at  int // counted from the state, field 3 of proc(5)
		set func(uint64)
	}{
		{1, func(v uint64) { p.PPID = int(v) }},
		{6, func(v uint64) { flags = v }},
		{17, func(v uint64) { p.Threads = int(v) }},
		{19, func(v uint64) { p.Start = v }},
	} {
		v, err := strconv.ParseUint(rest[f.at], 10, 64)
		if err != nil {
			return Process{}, fmt.Errorf("cannot parse /proc/PID/stat: field %d is not a number", f.at+3)
		}
		f.set(v)
	}
	p.Kernel = flags&pfKthread != 0
	return p, nil
}

func parseStatusUIDs(raw []byte) ([]uint32, error) {
	for line := range strings.Lines(string(raw)) {
		rest, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		var uids []uint32
		for _, f := range strings.Fields(rest) {
			v, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return nil, errors.New("cannot parse /proc/PID/status: Uid is not a number")
			}
			uids = append(uids, uint32(v))
		}
		if len(uids) == 4 {
			return uids, nil
		}
	}
	return nil, errors.New("cannot parse /proc/PID/status: no four user ids")
}

// Process looks at one process.
func (m *Machine) Process(pid int) (Process, error) { return m.process(pid) }

// Alive looks at a process again, and reports whether the same process still runs. A process that
// cannot be looked at counts as alive, since its end is not known.
func (m *Machine) Alive(p Process) (Process, bool) {
	now, err := m.process(p.PID)
	if err != nil {
		return p, !gone(err)
	}
	return now, now.Start == p.Start && !now.Ended()
}

// Signal sends a signal, but only if the pid still belongs to the process p.
func (m *Machine) Signal(p Process, sig unix.Signal) error { return m.signal(p, sig) }

// ForeignPIDs reports whether a process is in another PID namespace than the agent.
func (m *Machine) ForeignPIDs(pid int) bool {
	own, err1 := m.Readlink("/proc/self/ns/pid")
	its, err2 := m.Readlink(procPath(pid, "ns/pid"))
	return err1 == nil && err2 == nil && own != its
}

// noProcessErrors are the answers of pidfd_open to a pid without a process. For a pid whose process
// is just being reaped, or that a thread of another process has, older kernels answer EINVAL and
// newer ones ENOENT.
var noProcessErrors = []error{unix.ESRCH, unix.EINVAL, unix.ENOENT}

// signal sends through a pidfd, and only if the pid still belongs to the process p: the kernel may
// have given the pid to another process meanwhile.
func (m *Machine) signal(p Process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if slices.ContainsFunc(noProcessErrors, func(gone error) bool { return errors.Is(err, gone) }) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if now, err := m.process(p.PID); err != nil || now.Start != p.Start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot signal process %d: %w", p.PID, err)
	}
	return nil
}
