package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// program is the program in a terminal. Only Read and Write block on it.
type program interface {
	Read(b []byte) (int, error) // io.EOF: the program has ended, and all output was read
	Write(b []byte) (int, error)
	EndInput(times int) error
	Resize(frame.Resize) error
	Signal(name string) error
	// Wait returns when the program has ended and no process of its session is left. The remaining
	// output can still be read.
	Wait() frame.Exit
	// HangUp ends the program: by SIGHUP, and after grace by SIGKILL.
	HangUp(grace time.Duration)
	Close() error
}

// start is a program with its account, environment and size.
type start struct {
	account
	file string
	argv []string
	env  []string
	size frame.Resize
}

// shell is a program on a real terminal. It leads a session of its own. The kernel does not reuse
// the session's number before the program is reaped, so signals reach only this session's
// processes.
type shell struct {
	live   *machine.Machine
	cmd    *exec.Cmd
	master *os.File
	raw    syscall.RawConn // of master: access to the descriptor without making it blocking
	slave  *os.File        // held open: the terminal outlasts a program that closes its end
	grace  time.Duration

	mu     sync.Mutex // guards reaped during signals
	reaped bool
	ended  atomic.Bool
	rest   int // bytes that may still be read after the end
}

// afterEnd bounds what is read, after the end, from a terminal held by a process that left the
// session. It is more than the kernel buffers of a terminal.
const afterEnd = 256 << 10

// startShell opens a terminal and starts the program in it. Codes: terminal_start_failed.
func startShell(live *machine.Machine, st start, grace time.Duration) (*shell, error) {
	s := &shell{live: live, grace: grace, rest: afterEnd}
	err := s.open(st.size)
	if err == nil {
		err = s.run(st)
	}
	if err != nil {
		return nil, errors.Join(taskcatalog.Errorf(CodeStartFailed, "cannot start %s as %s: %v", st.file, st.Name, err), s.Close())
	}
	return s, nil
}

// open opens the terminal. The library's file would block a thread in each read and could not be
// woken, so its descriptor is duplicated into a non-blocking file.
func (s *shell) open(size frame.Resize) error {
	master, slave, err := pty.Open()
	if err != nil {
		return err
	}
	defer master.Close()
	s.slave = slave
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	s.master = os.NewFile(uintptr(fd), master.Name())
	if s.raw, err = s.master.SyscallConn(); err != nil {
		return err
	}
	return s.Resize(size)
}

func (s *shell) run(st start) error {
	// Only for the user: a program that opens the terminal by its path opens this file.
	if err := errors.Join(s.slave.Chown(int(st.UID), -1), s.slave.Chmod(0o600)); err != nil {
		return err
	}
	if err := keepDescriptors(); err != nil {
		return err
	}
	s.cmd = s.command(st, st.Home)
	err := s.cmd.Start()
	if err == nil {
		return nil
	}
	// The user enters the home, not root, and the user may not be allowed to: a file that somebody
	// has put in the home's place is never accessed as root. If the first error had another cause,
	// the second start fails as well.
	s.cmd = s.command(st, "/")
	if s.cmd.Start() == nil {
		return nil
	}
	return err
}

func (s *shell) command(st start, dir string) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: st.file, Args: st.argv, Env: st.env, Dir: dir, Stdin: s.slave, Stdout: s.slave, Stderr: s.slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	// A process without root can keep only its own user, and the kernel refuses even this call.
	if os.Geteuid() == 0 || st.UID != uint32(os.Geteuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: st.UID, Gid: st.GID, Groups: st.groups}
	}
	return cmd
}

// keepDescriptors keeps the program from inheriting descriptors that this process itself inherited.
func keepDescriptors() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (s *shell) Read(b []byte) (int, error) {
	if !s.ended.Load() {
		n, err := s.readAll(b)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, endOf(err)
		}
	}
	// The program has ended: all its output is available now, so do not wait.
	b = b[:min(len(b), s.rest)]
	if len(b) == 0 {
		return 0, io.EOF
	}
	n, err := 0, error(nil)
	if failed := s.control(func(fd int) error { n, err = unix.Read(fd, b); return nil }); failed != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	s.rest -= n
	return n, nil
}

// readAll waits until there is output, and reads all of it: the kernel returns no more than 4 KiB
// of a terminal at a time.
func (s *shell) readAll(b []byte) (n int, err error) {
	failed := s.raw.Read(func(fd uintptr) bool {
		for n < len(b) {
			more := 0
			more, err = unix.Read(int(fd), b[n:])
			switch {
			case more > 0:
				n += more
			case !errors.Is(err, unix.EINTR):
				return n > 0 || !errors.Is(err, unix.EAGAIN)
			}
		}
		return true
	})
	switch {
	case n > 0: // the error returns with the next read
		return n, nil
	case failed != nil:
		return 0, failed
	case err == nil:
		err = io.EOF
	}
	return 0, err
}

// endOf converts EIO, the end of a terminal without a process, to io.EOF.
func endOf(err error) error {
	if errors.Is(err, unix.EIO) {
		return io.EOF
	}
	return err
}

func (s *shell) Write(b []byte) (int, error) { return s.master.Write(b) }

// EndInput types the terminal's end-of-input character.
func (s *shell) EndInput(times int) error {
	var tio *unix.Termios
	err := s.control(func(fd int) (err error) { tio, err = unix.IoctlGetTermios(fd, unix.TCGETS); return err })
	if err != nil {
		return err
	}
	_, err = s.master.Write(bytes.Repeat([]byte{tio.Cc[unix.VEOF]}, times))
	return err
}

// Resize sets the terminal's size. The kernel does not signal an unchanged size; an operator who
// comes back with a screen of the same size starts with an empty screen, so Resize then signals the
// program itself.
func (s *shell) Resize(r frame.Resize) error {
	same := false
	err := s.control(func(fd int) error {
		had, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		same = err == nil && had.Row == r.Rows && had.Col == r.Columns
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: r.Rows, Col: r.Columns})
	})
	if err == nil && same {
		err = s.Signal("WINCH")
	}
	return err
}

// control calls f with the descriptor.
func (s *shell) control(f func(fd int) error) error {
	var failed error
	if err := s.raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// Signal signals the foreground process group.
func (s *shell) Signal(name string) error {
	group := 0
	if err := s.control(func(fd int) (err error) { group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP); return err }); err != nil {
		return err
	}
	_, err := s.signal(unix.SignalNum("SIG"+name), func(p machine.Process) bool { return p.Group == group })
	return err
}

// signal signals the chosen processes of the session, and counts all its processes, except the
// program once it has ended. Signal 0 only counts.
func (s *shell) signal(sig unix.Signal, chosen func(machine.Process) bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reaped {
		return 0, nil
	}
	all, err := s.live.Processes()
	if err != nil {
		return 0, err
	}
	count := 0
	for _, p := range all {
		err = errors.Join(err, p.Unread) // possibly a process of the session
		if p.Session != s.cmd.Process.Pid || p.Ended() {
			continue
		}
		count++
		if sig != 0 && chosen(p) {
			err = errors.Join(err, s.live.Signal(p, sig))
		}
	}
	return count, err
}

func allProcesses(machine.Process) bool { return true }

// Wait implements program.
func (s *shell) Wait() frame.Exit {
	for unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.HangUp(s.grace)
	s.mu.Lock()
	_ = s.cmd.Wait() // the error repeats the status
	s.reaped = true
	s.mu.Unlock()
	s.ended.Store(true)
	_ = s.master.SetDeadline(time.Unix(1, 0)) // wakes a blocked Read, and unblocks Write
	return exitOf(s.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

func exitOf(status syscall.WaitStatus) frame.Exit {
	if !status.Signaled() {
		return frame.Exit{Status: int32(status.ExitStatus())}
	}
	name := strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	if name == "" {
		name = strconv.Itoa(int(status.Signal())) // a real-time signal
	}
	return frame.Exit{Status: int32(128+int(status.Signal())) & 0xff, Signal: name}
}

// The interval of looking for remaining processes, and how long an unkillable process is waited
// for.
const (
	leftPoll = 20 * time.Millisecond
	killTime = 5 * time.Second
)

// HangUp implements program.
func (s *shell) HangUp(grace time.Duration) {
	if left, err := s.signal(unix.SIGHUP, allProcesses); left == 0 && err == nil {
		return
	}
	_, _ = s.signal(unix.SIGCONT, allProcesses) // a stopped process would not act on SIGHUP
	killed := time.Now().Add(grace)
	for now := range time.Tick(leftPoll) {
		sig := unix.Signal(0)
		if now.After(killed) {
			sig = unix.SIGKILL
		}
		left, err := s.signal(sig, allProcesses)
		if left == 0 && err == nil || now.After(killed.Add(killTime)) {
			return
		}
	}
}

// Close closes the terminal; the kernel hangs up remaining processes.
func (s *shell) Close() error {
	var err error
	for _, f := range []*os.File{s.master, s.slave} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
