//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/test/fleet"
)

// builtBroker names the variable with the broker built from this source; if set, this process is in
// the test's namespace.
const builtBroker = "HOSTLER_TEST_CHAOS_BROKER"

// TestMain re-executes the test in a network namespace of its own. Steps that need the machine's
// network, such as Go's downloads for the build, run before.
func TestMain(m *testing.M) {
	fleet.Serve()
	if os.Getenv(builtBroker) != "" {
		os.Exit(m.Run())
	}
	if err := inNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos (needs root, for namespaces):", err)
		os.Exit(1)
	}
}

func inNamespace() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hostler-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "hostler-broker") // the program's own tests have its clock in hand
	if out, err := exec.Command("go", "test", "-c", "-o", program, "../../broker/cmd/hostler-broker").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the broker: %w: %s", err, out)
	}
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "--propagation", "private", self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), builtBroker+"="+program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// world is the address of everything but the brokers and the database.
const world = "10.77.0.1"

// machine is a network namespace with a route to the world, and through the world to the other
// machines.
type machine struct {
	name, address string
	ns            int // descriptor
}

// ip runs iproute2's ip.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// network makes the bridge of the world.
func network(t *testing.T) {
	t.Helper()
	if err := unix.Mount("none", "/run/netns", "tmpfs", 0, ""); err != nil { // the mount namespace is ours, too
		if err := os.MkdirAll("/run/netns", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ip(t, "link set lo up")
	ip(t, "link add hub type bridge")
	ip(t, "addr add "+world+"/24 dev hub")
	ip(t, "link set hub up")
}

// newMachine makes the n-th machine.
func newMachine(t *testing.T, n int, name string) *machine {
	t.Helper()
	m := &machine{name: name, address: fmt.Sprintf("10.77.0.%d", 10+n)}
	ip(t, "netns add "+name)
	ip(t, fmt.Sprintf("link add to-%s type veth peer name eth0 netns %s", name, name))
	ip(t, fmt.Sprintf("link set to-%s master hub up", name))
	ip(t, fmt.Sprintf("-n %s link set lo up", name))
	ip(t, fmt.Sprintf("-n %s addr add %s/24 dev eth0", name, m.address))
	ip(t, fmt.Sprintf("-n %s link set eth0 up", name))
	var err error
	if m.ns, err = unix.Open("/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	return m
}

// start starts a process in the machine's namespace. The process ends with the test.
func (m *machine) start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	home, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(home) }()
	if err := unix.Setns(m.ns, unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = cmd.Start()
	if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
		return back // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// cut blocks or restores the route to another machine; packets to a blocked machine are dropped.
func (m *machine) cut(t *testing.T, other string, cut bool) {
	verb := "del"
	if cut {
		verb = "add"
	}
	ip(t, fmt.Sprintf("-n %s route %s blackhole %s/32", m.name, verb, other))
}

// unplug takes the machine's whole link down, or brings it up.
func (m *machine) unplug(t *testing.T, unplugged bool) {
	state := "up"
	if unplugged {
		state = "down"
	}
	ip(t, fmt.Sprintf("link set to-%s %s", m.name, state))
}
