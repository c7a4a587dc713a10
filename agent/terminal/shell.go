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

// program is what runs in a terminal. Reading and writing it wait for it, and nothing
// else does.
type program interface {
	Read(b []byte) (int, error) // io.EOF: it has ended, and all was read
	Write(b []byte) (int, error)
	EndInput(times int) error
	Resize(frame.Resize) error
	Signal(name string) error
	// Wait returns when the program has ended and nothing of its session is left; what it
	// wrote can still be read.
	Wait() frame.Exit
	// HangUp has it end: by SIGHUP, and after grace by SIGKILL.
	HangUp(grace time.Duration)
	Close() error
}

// start is a program and what is around it.
type start struct {
	account
	file string
	argv []string
	env  []string
	size frame.Resize
}

// shell is a program on a real terminal. It leads a session of its own, whose number is
// not given away while the program is not reaped: so what is signaled is always its own.
type shell struct {
	live   *machine.Machine
	cmd    *exec.Cmd
	master *os.File
	raw    syscall.RawConn // master's: its descriptor, without making it one that blocks
	slave  *os.File        // held, so that the terminal outlasts a program that closes it
	grace  time.Duration

	mu     sync.Mutex // over whether it is reaped, while somebody signals
	reaped bool
	ended  atomic.Bool
	rest   int // bytes that may still be read after the end
}

// afterEnd bounds what is read of a terminal that somebody holds who left the session: more
// than the kernel keeps of one.
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

// open makes the terminal. The library's file would block a thread in each read, and could
// not be woken: its descriptor is taken over by one that can.
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
	// Its own and nobody else's: what the user's programs open by its path is this file.
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
	// It is the user himself who goes to his home, and may not get there: nothing that somebody
	// has put in its place is looked at as root. If it was something else, it is that again.
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
	// Who is not root can be nobody else, and the kernel refuses him even to say so.
	if os.Geteuid() == 0 || st.UID != uint32(os.Geteuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: st.UID, Gid: st.GID, Groups: st.groups}
	}
	return cmd
}

// keepDescriptors has no program inherit what this process itself did, which is open for
// all that it starts.
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
	// The program has ended: what it wrote is there by now, and nothing is waited for.
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

// readAll waits until there is something, and reads all there is: the kernel gives no more
// than 4 KiB of a terminal at a time.
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
	case n > 0: // an end comes with the next
		return n, nil
	case failed != nil:
		return 0, failed
	case err == nil:
		err = io.EOF
	}
	return 0, err
}

// endOf tells the end of a terminal from what is none: nobody is at its other end.
func endOf(err error) error {
	if errors.Is(err, unix.EIO) {
		return io.EOF
	}
	return err
}

func (s *shell) Write(b []byte) (int, error) { return s.master.Write(b) }

// EndInput types what the terminal takes for the end of input.
func (s *shell) EndInput(times int) error {
	var tio *unix.Termios
	err := s.control(func(fd int) (err error) { tio, err = unix.IoctlGetTermios(fd, unix.TCGETS); return err })
	if err != nil {
		return err
	}
	_, err = s.master.Write(bytes.Repeat([]byte{tio.Cc[unix.VEOF]}, times))
	return err
}

// Resize tells the program how large its terminal is. The kernel says nothing of a size that
// is the one before; who comes back with a screen of that size has nothing on it yet, so the
// program hears of it all the same.
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

// control uses the descriptor.
func (s *shell) control(f func(fd int) error) error {
	var failed error
	if err := s.raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// Signal sends to whoever is in the foreground.
func (s *shell) Signal(name string) error {
	group := 0
	if err := s.control(func(fd int) (err error) { group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP); return err }); err != nil {
		return err
	}
	_, err := s.signal(unix.SignalNum("SIG"+name), func(p machine.Process) bool { return p.Group == group })
	return err
}

// signal sends to those of the session that are chosen, and counts all who are in it, the
// program apart once it has ended. 0 only counts.
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
		err = errors.Join(err, p.Unread) // one of the session's, perhaps
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

func everyone(machine.Process) bool { return true }

// Wait implements program.
func (s *shell) Wait() frame.Exit {
	for unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	s.HangUp(s.grace)
	s.mu.Lock()
	_ = s.cmd.Wait() // its status says it
	s.reaped = true
	s.mu.Unlock()
	s.ended.Store(true)
	_ = s.master.SetDeadline(time.Unix(1, 0)) // whoever waits in Read looks again, and no Write waits
	return exitOf(s.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

func exitOf(status syscall.WaitStatus) frame.Exit {
	if !status.Signaled() {
		return frame.Exit{Status: int32(status.ExitStatus())}
	}
	name := strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG")
	if name == "" {
		name = strconv.Itoa(int(status.Signal())) // one of those for real time
	}
	return frame.Exit{Status: int32(128+int(status.Signal())) & 0xff, Signal: name}
}

// How often who is left is looked for, and for how long one is killed that does not die.
const (
	leftPoll = 20 * time.Millisecond
	killTime = 5 * time.Second
)

// HangUp implements program.
func (s *shell) HangUp(grace time.Duration) {
	if left, err := s.signal(unix.SIGHUP, everyone); left == 0 && err == nil {
		return
	}
	_, _ = s.signal(unix.SIGCONT, everyone) // one that is stopped would not hear of it
	killed := time.Now().Add(grace)
	for now := range time.Tick(leftPoll) {
		sig := unix.Signal(0)
		if now.After(killed) {
			sig = unix.SIGKILL
		}
		left, err := s.signal(sig, everyone)
		if left == 0 && err == nil || now.After(killed.Add(killTime)) {
			return
		}
	}
}

// Close gives the terminal back; whoever is still in it is hung up by the kernel.
func (s *shell) Close() error {
	var err error
	for _, f := range []*os.File{s.master, s.slave} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
