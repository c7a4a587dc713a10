package machine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// Listener is a socket in the host's network namespace that waits for peers.
type Listener struct {
	Proto string // tcp or udp, for both address families
	Addr  netip.AddrPort
	UID   uint32
	Inode uint64
}

// Name names the listener as the baseline and the policy do: tcp/22.
func (l Listener) Name() string { return l.Proto + "/" + strconv.Itoa(int(l.Addr.Port())) }

// Listeners lists listening TCP sockets and UDP sockets bound without a peer.
func (m *Machine) Listeners() ([]Listener, error) {
	var all []Listener
	for _, t := range []struct{ file, proto, state string }{
		{"tcp", "tcp", "0A"}, {"tcp6", "tcp", "0A"}, {"udp", "udp", "07"}, {"udp6", "udp", "07"},
	} {
		n := 0
		err := m.lines("/proc/1/net/"+t.file, func(line []byte) error {
			n++
			l, err := parseSocket(string(line), n, t.state)
			if err != nil {
				return fmt.Errorf("cannot parse /proc/net/%s: %w", t.file, err)
			}
			if l != nil {
				l.Proto = t.proto
				all = append(all, *l)
			}
			return nil
		})
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(t.file, "6") {
			continue // a kernel booted without IPv6
		}
		if err == nil && n == 0 {
			err = fmt.Errorf("/proc/net/%s is empty", t.file)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list sockets: %w", err)
		}
	}
	return all, nil
}

// parseSocket reads line n of a table of sockets. It returns nil for the heading and for a socket
// in another state.
func parseSocket(line string, n int, state string) (*Listener, error) {
	f := strings.Fields(line)
	if n == 1 {
		if len(f) < 2 || f[0] != "sl" {
			return nil, errors.New("no heading")
		}
		return nil, nil
	}
	if len(f) < 10 {
		return nil, fmt.Errorf("line %d has too few fields", n)
	}
	if f[3] != state {
		return nil, nil
	}
	addr, err1 := parseSocketAddr(f[1])
	uid, err2 := strconv.ParseUint(f[7], 10, 32)
	inode, err3 := strconv.ParseUint(f[9], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return &Listener{Addr: addr, UID: uint32(uid), Inode: inode}, nil
}

// parseSocketAddr reads ADDRESS:PORT. The address is in hex, each 32-bit word in the machine's byte
// order, which is little-endian on all machines with GPUs.
func parseSocketAddr(s string) (netip.AddrPort, error) {
	a, p, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(a)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, errors.New("no address")
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	port, err := strconv.ParseUint(p, 16, 16)
	if err != nil {
		return netip.AddrPort{}, errors.New("no port")
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), nil
}

// SocketHolders finds the processes that hold the sockets with these inodes.
func (m *Machine) SocketHolders(inodes map[uint64]bool) (map[uint64][]int, error) {
	pids, err := m.PIDs()
	if err != nil {
		return nil, err
	}
	held := map[uint64][]int{}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd"
		names, err := m.Names(dir)
		if err != nil {
			continue // the process ended, or is a kernel thread
		}
		for _, fd := range names {
			target, err := m.Readlink(dir + "/" + fd)
			if err != nil {
				continue
			}
			number, ok := strings.CutPrefix(target, "socket:[")
			inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
			if ok && err == nil && inodes[inode] {
				held[inode] = append(held[inode], pid)
			}
		}
	}
	return held, nil
}
