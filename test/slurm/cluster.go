package slurm

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

// Controller is where the nodes of a cluster report.
const Controller = "10.77.0.1:6817"

// startIn bounds the start of a program. Slurm's take half a second.
const startIn = time.Minute

// Cluster is a Slurm controller with its REST API, in namespaces of its own.
type Cluster struct {
	t    testing.TB
	pid  string // of the process that holds the namespaces
	Root string // what the programs see as /
	// URL and CA are of the REST API behind a proxy with TLS, and Token is one of its administrator.
	URL, CA, Token string
	Key            []byte // with which nodes authenticate
}

const config = `ClusterName=lab
SlurmctldHost=ctl(10.77.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
SlurmctldParameters=enable_configless
StateSaveLocation=/var/state
SlurmdSpoolDir=/var/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=1
MaxNodeCount=16
SelectType=select/cons_tres
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// Start starts a cluster without nodes. It skips the test where it cannot run.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Key: random(128)}
	c.hold(root(t))
	c.mount()
	c.Run("ip", "link", "set", "lo", "up")
	// With an address on loopback alone, Slurm resolves no name.
	c.Run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "other")
	c.Run("ip", "address", "add", "10.77.0.1/24", "dev", "uplink")
	c.Run("ip", "link", "set", "uplink", "up")
	c.Run("ip", "link", "set", "other", "up")
	c.write("/etc/slurm/slurm.conf", []byte(config), 0o644)
	c.write("/etc/slurm/cgroup.conf", []byte("CgroupPlugin=disabled\n"), 0o644)
	c.write("/etc/slurm/slurm.key", c.Key, 0o600)
	c.write("/etc/slurm/jwt.key", random(32), 0o600)
	c.Begin("slurmctld", "-D")
	c.Until("the controller is up", func() bool {
		out, err := c.command("scontrol", "ping").Output()
		return err == nil && strings.Contains(string(out), "is UP")
	})
	c.Token = strings.TrimPrefix(strings.TrimSpace(c.Run("scontrol", "token", "username=root", "lifespan=3600")), "SLURM_JWT=")
	c.api()
	return c
}

// Record is the cluster as an administrator sets it, with its secrets.
func (c *Cluster) Record() (broker.Cluster, cluster.Access) {
	return broker.Cluster{
		Name: "lab", Backend: broker.ClusterSlurm, URL: c.URL, CACert: c.CA, Controller: Controller, JoinAuth: broker.JoinSlurm,
		VaultPath: broker.ClusterPath("lab"), Generation: "g-1",
	}, cluster.Access{Token: c.Token, JoinSecret: c.Key}
}

// hold starts a process that does nothing in new namespaces. It ends with the test.
func (c *Cluster) hold(root string) {
	cmd := exec.Command("unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child",
		"--root="+root, "--mount-proc=/proc", "/usr/bin/cat")
	in, err := cmd.StdinPipe()
	c.ok(err)
	out, err := cmd.StdoutPipe()
	c.ok(err)
	c.ok(cmd.Start())
	c.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = io.WriteString(in, "ready\n")
	c.ok(err)
	_, err = bufio.NewReader(out).ReadString('\n')
	c.ok(err)
	c.pid = strconv.Itoa(childrenOf(cmd.Process.Pid)[0])
	c.Root = "/proc/" + c.pid + "/root"
	c.ok(exec.Command("nsenter", "--target", c.pid, "--uts", "hostname", "ctl").Run())
}

// mount gives the cluster what it may write, and the files that a whole system has.
func (c *Cluster) mount() {
	c.Run("mount", "-t", "sysfs", "sysfs", "/sys") // hwloc reads it
	for _, dir := range []string{"/etc", "/run", "/tmp", "/var", "/dev"} {
		c.Run("mount", "-t", "tmpfs", "tmpfs", dir)
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "urandom": 9} {
		at := filepath.Join(c.Root, "dev", name)
		c.ok(unix.Mknod(at, unix.S_IFCHR, int(unix.Mkdev(1, minor))))
		c.ok(os.Chmod(at, 0o666))
	}
	for _, dir := range []string{"/etc/slurm", "/var/state", "/var/spool", "/var/log"} {
		c.ok(os.Mkdir(c.Root+dir, 0o755))
	}
	c.write("/etc/hosts", []byte("127.0.0.1 localhost\n10.77.0.1 ctl\n"), 0o644)
	c.write("/etc/nsswitch.conf", []byte("hosts: files\n"), 0o644)
	c.write("/etc/passwd", []byte("root:x:0:0::/:/bin/sh\n"), 0o644)
	c.write("/etc/group", []byte("root:x:0:\n"), 0o644)
}

// api starts slurmrestd on a socket, and a proxy with TLS before it, as a site has one.
func (c *Cluster) api() {
	c.Begin("env", "SLURMRESTD_SECURITY=disable_user_check", "SLURM_JWT=daemon",
		"slurmrestd", "-a", "rest_auth/jwt", "-s", "slurmctld", "unix:/run/slurmrestd.sock")
	socket := c.Root + "/run/slurmrestd.sock"
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c.Until("slurmrestd is up", func() bool {
		conn, err := dial(c.t.Context(), "", "")
		return err == nil && conn.Close() == nil
	})
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "slurmrestd"})
	proxy.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
	s := httptest.NewTLSServer(proxy)
	c.t.Cleanup(s.Close)
	c.URL, c.CA = s.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// command is a program in the cluster's namespaces.
func (c *Cluster) command(argv ...string) *exec.Cmd {
	enter := []string{"--target", c.pid, "--net", "--mount", "--pid", "--uts", "--ipc", "--root", "--wdns=/"}
	cmd := exec.Command("nsenter", append(enter, argv...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C"}
	return cmd
}

// Run runs a program, and returns what it prints.
func (c *Cluster) Run(argv ...string) string {
	c.t.Helper()
	cmd := c.command(argv...)
	patience := time.AfterFunc(startIn, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// Begin starts a program that ends with the test or with stop, and logs what it prints if the test
// fails.
func (c *Cluster) Begin(argv ...string) (stop func()) {
	c.t.Helper()
	cmd := c.command(argv...)
	// Not a pipe: a program's children would hold it open.
	out, err := os.Create(filepath.Join(c.t.TempDir(), "output"))
	c.ok(err)
	cmd.Stdout, cmd.Stderr = out, out
	c.ok(cmd.Start())
	end := sync.OnceFunc(func() {
		// The program is the child of nsenter, which waits for it.
		for _, child := range childrenOf(cmd.Process.Pid) {
			_ = unix.Kill(child, unix.SIGKILL)
		}
		_ = cmd.Wait()
	})
	c.t.Cleanup(func() {
		end()
		if said, err := os.ReadFile(out.Name()); c.t.Failed() {
			c.t.Logf("%s: %v\n%s", strings.Join(argv, " "), err, said)
		}
		_ = out.Close()
	})
	return end
}

// childrenOf are the child processes of a process with one thread.
func childrenOf(pid int) (children []int) {
	self := strconv.Itoa(pid)
	raw, _ := os.ReadFile("/proc/" + self + "/task/" + self + "/children") // none: it has ended
	for _, word := range strings.Fields(string(raw)) {
		if child, err := strconv.Atoi(word); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// Node starts slurmd with its own /etc/slurm, in which is the key alone. It ends with the test or with
// stop.
func (c *Cluster) Node(argv []string, key []byte) (stop func()) {
	c.t.Helper()
	c.ok(os.MkdirAll(c.Root+"/run/node", 0o755))
	c.write("/run/node/slurm.key", key, 0o400)
	alone := []string{"unshare", "--mount", "--propagation", "unchanged", "sh", "-c", `mount --bind /run/node /etc/slurm && exec "$@"`, "sh"}
	return c.Begin(append(alone, argv...)...)
}

// Until asks until the answer is yes.
func (c *Cluster) Until(what string, yes func() bool) {
	c.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(startIn); !yes(); <-again.C {
		if time.Now().After(end) {
			c.t.Fatalf("not in time: %s", what)
		}
	}
}

func (c *Cluster) write(name string, content []byte, mode os.FileMode) {
	c.t.Helper()
	c.ok(os.WriteFile(c.Root+name, content, mode))
}

func (c *Cluster) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(fmt.Errorf("cannot start Slurm: %w", err))
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
