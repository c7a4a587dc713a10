package slurm

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeAddress is the address that a machine takes on its Card, in a network of NetworkBits.
const (
	NodeAddress = "10.77.0.7"
	NetworkBits = "24"
)

// card is the cluster's end of a Card.
const card = "node"

// Card makes the cluster's end of a network card: what a machine sends comes out at the file. The machine
// is reached at NodeAddress, and reaches all addresses of the cluster. The caller closes the file.
func (c *Cluster) Card(ctx context.Context) (*os.File, error) {
	var file *os.File
	err := c.inside(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), card)
		request, err := unix.NewIfreq(card)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	for _, line := range []string{"link set " + card + " up", "route add " + NodeAddress + "/32 dev " + card + " src " + controllerAddress} {
		if err == nil {
			_, err = c.Output(ctx, append([]string{"ip"}, strings.Fields(line)...)...)
		}
	}
	if err != nil && file != nil {
		_ = file.Close()
	}
	return file, err
}

// Listen listens at an address of the cluster's network that no other has.
func (c *Cluster) Listen(ctx context.Context, address, port string) (l net.Listener, err error) {
	if _, err := c.Output(ctx, "ip", "address", "add", address+"/"+NetworkBits, "dev", "uplink"); err != nil {
		return nil, err
	}
	err = c.inside(func() (err error) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort(address, port))
		return err
	})
	return l, err
}

// inside calls do in the cluster's network. The thread goes back then, and does not end: the kernel would kill
// the programs that it has started to end with it.
func (c *Cluster) inside(do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	network, err := os.Open("/proc/" + c.pid + "/ns/net")
	if err == nil {
		defer network.Close()
		err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
	}
	if err == nil {
		err = do()
	}
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // nothing else may run on this thread
	}
	runtime.UnlockOSThread()
	return err
}
