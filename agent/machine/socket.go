package machine

import (
	"context"
	"fmt"
	"io/fs"
	"net"

	"golang.org/x/sys/unix"
)

// DialSocket connects to a service's unix socket. The socket must be root's, and no component of
// the path may be a link.
func (m *Machine) DialSocket(ctx context.Context, name string) (net.Conn, error) {
	fd, err := openat2(int(m.root.Fd()), relative(name), unix.O_PATH|unix.O_NOFOLLOW, 0, resolveStrict)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Uid != 0 {
		return nil, fmt.Errorf("cannot connect to %s: it is not a socket that root owns", name)
	}
	// The path of the descriptor guarantees a connection to the socket checked above.
	conn, err := new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", name, err)
	}
	return conn, nil
}
