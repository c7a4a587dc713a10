package slurm

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/test/qemu"
)

// nodeAddress is the address of a machine that is connected, in a network of networkBits.
const (
	nodeAddress = "10.77.0.7"
	networkBits = "24"
)

// link is the cluster's end of a connection.
const link = "node"

// Connect connects a guest to the network of the cluster, over a tunnel that ends with the cluster. Both reach
// all addresses of the other.
func (c *Cluster) Connect(ctx context.Context, g *qemu.Guest) error {
	tunnel, err := g.Tunnel(ctx)
	if err != nil {
		return err
	}
	end, err := c.end(ctx)
	if err != nil {
		return errors.Join(err, tunnel.Close())
	}
	carried := make(chan struct{})
	go func() {
		defer close(carried)
		_ = tunnel.Carry(end)
	}()
	c.closing = append(c.closing, func() {
		_ = tunnel.Close()
		_ = end.Close()
		<-carried
	})
	_, err = g.Run(ctx, "sh", "-c", `ip address add "$1" dev "$2" && ip link set "$2" up`, "sh", nodeAddress+"/"+networkBits, tunnel.Interface)
	return err
}

// end makes the cluster's end of a connection: what it sends to a machine comes out at the file.
func (c *Cluster) end(ctx context.Context) (*os.File, error) {
	var file *os.File
	err := c.inside(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(link)
		if err == nil {
			request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		file = os.NewFile(uintptr(fd), link) // only now can it be waited for
		return nil
	})
	for _, line := range []string{"link set " + link + " up", "route add " + nodeAddress + "/32 dev " + link + " src " + controllerAddress} {
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
	if _, err := c.Output(ctx, "ip", "address", "add", address+"/"+networkBits, "dev", "uplink"); err != nil {
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
