package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

const socketName = "handover"

// Time limits: to send or receive a message, and, for the asking end, to get an answer.
const (
	messageTime = 5 * time.Second
	askTime     = 20 * time.Second
	acceptPause = 100 * time.Millisecond
)

// guard verifies that only this user can change a directory, and this user or root the directory
// above it.
func guard(dir string) error {
	for _, d := range []struct {
		path  string
		shut  os.FileMode
		owner []int
	}{{dir, 0o077, []int{os.Geteuid()}}, {filepath.Dir(dir), 0o022, []int{os.Geteuid(), 0}}} {
		info, err := os.Lstat(d.path)
		if err != nil {
			return err
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		open := info.Mode().Perm()&d.shut != 0
		if !info.IsDir() || open || owner != d.owner[0] && owner != d.owner[len(d.owner)-1] {
			return taskcatalog.Errorf(CodeUnguarded, "cannot use %s: not a directory that only uid %d can enter", d.path, os.Geteuid())
		}
	}
	return nil
}

// same verifies that the process at the other end of a connection belongs to this user.
func same(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return allow(who, os.Geteuid())
}

func allow(who *unix.Ucred, uid int) error {
	if int(who.Uid) != uid {
		return taskcatalog.Errorf(CodeStranger, "process %d at the other end is of uid %d", who.Pid, who.Uid)
	}
	return nil
}

// Socket is the session's end.
type Socket struct {
	*net.UnixListener
}

// Open opens the socket in a directory that is this user's alone. Codes: handover_unguarded.
func Open(dir string) (*Socket, error) {
	if err := guard(dir); err != nil {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the agent: %w", err)
	}
	return &Socket{socket}, nil
}

// Answer answers requests until the context ends, and returns after the last answer. Connections
// that do not yield a request are reported to refused.
func (s *Socket) Answer(ctx context.Context, answer func(Request) Reply, refused func(error)) {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	for {
		conn, err := s.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as no descriptor left
			refused(err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		if err := serve(conn, answer); err != nil {
			refused(err)
		}
		_ = conn.Close()
	}
}

func serve(conn *net.UnixConn, answer func(Request) Reply) error {
	if err := same(conn); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(messageTime)); err != nil {
		return err
	}
	var reply Reply
	var request Request
	err := read(conn, &request)
	if err != nil {
		reply = Refuse(err)
	} else {
		reply = answer(request)
	}
	reply.Version = Version
	if failed := conn.SetDeadline(time.Now().Add(messageTime)); failed != nil {
		return failed
	}
	return errors.Join(err, write(conn, reply))
}

// Ask sends a request to the process whose socket is in a directory. Codes: terminal_not_served,
// handover_stranger, handover_unguarded, handover_version. The codes of the answer are in the
// Reply.
func Ask(ctx context.Context, dir string, request Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := guard(dir); err != nil {
		return Reply{}, nobody(err)
	}
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, socketName))
	if err != nil {
		return Reply{}, nobody(err)
	}
	conn := dialed.(*net.UnixConn)
	defer conn.Close()
	if err := same(conn); err != nil {
		return Reply{}, err
	}
	cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer cut()
	request.Version = Version
	if err := write(conn, request); err != nil {
		return Reply{}, fmt.Errorf("cannot hand over: %w", err)
	}
	if err := conn.CloseWrite(); err != nil {
		return Reply{}, fmt.Errorf("cannot hand over: %w", err)
	}
	var reply Reply
	if err := read(conn, &reply); err != nil {
		return Reply{}, fmt.Errorf("the session's process did not answer: %w", errors.Join(err, ctx.Err()))
	}
	return reply, nil
}

// nobody gives CodeNobody to errors that show that no process is listening.
func nobody(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return taskcatalog.Errorf(CodeNobody, "no process of the session answers: %v", err)
	}
	return err
}
