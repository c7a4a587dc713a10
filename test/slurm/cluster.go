package slurm

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

// Controller is where the nodes of a cluster report, and controllerAddress is its address.
const (
	Controller        = controllerAddress + ":6817"
	controllerAddress = "10.77.0.1"
)

// Cluster is a Slurm controller with its REST API, in namespaces of its own.
type Cluster struct {
	pid  string // of the process that holds the namespaces
	dir  string // of what the programs print
	Root string // what the programs see as /
	// URL and CA are of the REST API behind a proxy with TLS, and Token is one of its administrator.
	URL, CA, Token string
	Key            []byte // with which nodes authenticate

	closing []func() // what ends with the cluster, the first last
	outputs []string // the files of what programs print
}

const config = `ClusterName=lab
SlurmctldHost=ctl(` + controllerAddress + `)
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

// Run starts a cluster without nodes, of the programs in a directory that Programs has made. The caller
// must Close it.
func Run(ctx context.Context, programs string) (*Cluster, error) {
	c := &Cluster{Key: random(128)}
	for _, begin := range []func(context.Context) error{
		func(context.Context) error { return c.hold(programs) },
		c.mount, c.link, c.configure, c.control, c.api,
	} {
		if err := begin(ctx); err != nil {
			err = fmt.Errorf("cannot start Slurm: %w\n%s", err, c.Said())
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close ends the cluster.
func (c *Cluster) Close() {
	for _, end := range slices.Backward(c.closing) {
		end()
	}
	c.closing = nil
}

// Said is what the cluster's programs have printed.
func (c *Cluster) Said() string {
	var all strings.Builder
	for _, name := range c.outputs {
		raw, _ := os.ReadFile(name) // none: it printed nothing
		all.Write(raw)
	}
	return all.String()
}

// Record is the cluster as an administrator sets it, with its secrets.
func (c *Cluster) Record() (broker.Cluster, cluster.Access) {
	return broker.Cluster{
		Name: "lab", Backend: broker.ClusterSlurm, URL: c.URL, CACert: c.CA, Controller: Controller, JoinAuth: broker.JoinSlurm,
		VaultPath: broker.ClusterPath("lab"), Generation: "g-1",
	}, cluster.Access{Token: c.Token, JoinSecret: c.Key}
}

// mount gives the cluster what it may write, and the files that a whole system has.
func (c *Cluster) mount(ctx context.Context) error {
	if _, err := c.Output(ctx, "mount", "-t", "sysfs", "sysfs", "/sys"); err != nil { // hwloc reads it
		return err
	}
	for _, dir := range []string{"/etc", "/run", "/tmp", "/var", "/dev"} {
		if _, err := c.Output(ctx, "mount", "-t", "tmpfs", "tmpfs", dir); err != nil {
			return err
		}
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "urandom": 9} {
		at := filepath.Join(c.Root, "dev", name)
		if err := unix.Mknod(at, unix.S_IFCHR, int(unix.Mkdev(1, minor))); err != nil {
			return err
		}
		if err := os.Chmod(at, 0o666); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/etc/slurm", "/var/state", "/var/spool", "/var/log"} {
		if err := os.Mkdir(c.Root+dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// link gives the cluster a network. With an address on loopback alone, Slurm resolves no name.
func (c *Cluster) link(ctx context.Context) error {
	for _, line := range []string{
		"link set lo up", "link add uplink type veth peer name other", "address add " + controllerAddress + "/24 dev uplink",
		"link set uplink up", "link set other up",
	} {
		if _, err := c.Output(ctx, append([]string{"ip"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) configure(context.Context) error {
	for name, content := range map[string]string{
		"/etc/hosts":             "127.0.0.1 localhost\n" + controllerAddress + " ctl\n",
		"/etc/nsswitch.conf":     "hosts: files\n",
		"/etc/passwd":            "root:x:0:0::/:/bin/sh\n",
		"/etc/group":             "root:x:0:\n",
		"/etc/slurm/slurm.conf":  config,
		"/etc/slurm/cgroup.conf": "CgroupPlugin=disabled\n",
	} {
		if err := c.write(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := c.write("/etc/slurm/slurm.key", c.Key, 0o600); err != nil {
		return err
	}
	return c.write("/etc/slurm/jwt.key", random(32), 0o600)
}

// control starts the controller.
func (c *Cluster) control(ctx context.Context) error {
	if _, err := c.Begin("slurmctld", "-D"); err != nil {
		return err
	}
	err := c.Until(ctx, "the controller is up", func() bool {
		out, err := c.command("scontrol", "ping").Output()
		return err == nil && strings.Contains(string(out), "is UP")
	})
	if err != nil {
		return err
	}
	token, err := c.Output(ctx, "scontrol", "token", "username=root", "lifespan=3600")
	c.Token = strings.TrimPrefix(strings.TrimSpace(token), "SLURM_JWT=")
	return err
}

// api starts slurmrestd on a socket, and a proxy with TLS before it, as a site has one.
func (c *Cluster) api(ctx context.Context) error {
	if _, err := c.Begin("env", "SLURMRESTD_SECURITY=disable_user_check", "SLURM_JWT=daemon",
		"slurmrestd", "-a", "rest_auth/jwt", "-s", "slurmctld", "unix:/run/slurmrestd.sock"); err != nil {
		return err
	}
	socket := c.Root + "/run/slurmrestd.sock"
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	err := c.Until(ctx, "slurmrestd is up", func() bool {
		conn, err := dial(ctx, "", "")
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "slurmrestd"})
	proxy.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
	s := httptest.NewTLSServer(proxy)
	c.closing = append(c.closing, s.Close)
	c.URL, c.CA = s.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return nil
}

func (c *Cluster) write(name string, content []byte, mode os.FileMode) error {
	return os.WriteFile(c.Root+name, content, mode)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
