//go:build chaos

package chaos

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/secrets/secretstest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/maassim"
)

const (
	operatorPort = "7440"
	agentPort    = "7441"
	maasPort     = "5240"
	vaultPort    = "8200"
	replicas     = 3
)

// replica is a broker on a machine of its own.
type replica struct {
	*machine
	t       *testing.T
	program string
	dir     string
	log     *os.File

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// scene is the whole world.
type scene struct {
	t       *testing.T
	dir     string
	program string // the broker of this source
	pg      *database
	brokers []*replica
	region  *maassim.Region
	api     *client.Client
	root    string // SHA-256 of the brokers' root
	fleet   *fleet.Fleet
	seen    *seen
	lives   context.Context // of the nodes
	die     context.CancelFunc
}

// newScene starts brokers of the given program; empty means this tree's program.
func newScene(t *testing.T, program string) *scene {
	t.Helper()
	network(t)
	s := &scene{t: t, dir: t.TempDir(), seen: newSeen(), program: os.Getenv(builtBroker)}
	s.lives, s.die = context.WithCancel(t.Context())
	if program == "" {
		program = s.program
	}
	s.pg = newDatabase(t, newMachine(t, 0, "database"))
	vault := s.serveVault()
	s.serveMAAS()
	for n := range replicas {
		s.brokers = append(s.brokers, s.newReplica(n+1, program, vault))
	}
	for _, port := range []string{operatorPort, agentPort} {
		balance(t, s.brokers, port)
	}
	for _, b := range s.brokers {
		b.boot()
	}
	s.connect()
	return s
}

// serveVault serves the Vault stand-in to the brokers' machines, and returns the Vault part of
// their configuration.
func (s *scene) serveVault() string {
	s.t.Helper()
	v := secretstest.StartVault(s.t, false)
	key, err := pki.GenerateKey(pki.P256)
	must(s.t, err)
	root, err := pki.NewRoot(rand.Reader, key, "Vault's", time.Now().Add(-time.Hour), 24*time.Hour)
	must(s.t, err)
	ca, err := pki.NewCA([]*x509.Certificate{root}, key)
	must(s.t, err)
	own, err := pki.GenerateKey(pki.P256)
	must(s.t, err)
	cert, err := ca.IssueServer(own.Public(), nil, []net.IP{net.ParseIP(world)}, time.Now(), 24*time.Hour)
	must(s.t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(world, vaultPort))
	must(s.t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: v}, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: own}}}}
	server.StartTLS()
	s.t.Cleanup(server.Close)
	token, trusted := filepath.Join(s.dir, "vault.token"), filepath.Join(s.dir, "vault.pem")
	must(s.t, errors.Join(os.WriteFile(token, []byte(secretstest.Root), 0o600), os.WriteFile(trusted, pki.MarshalCerts(root), 0o600)))
	return fmt.Sprintf("secrets: vault\nvault: {address: %q, ca_file: %q, mount: %q, prefix: %q, token_file: %q}\n", "https://"+listener.Addr().String(), trusted, secretstest.Mount, secretstest.Prefix, token)
}

func (s *scene) serveMAAS() {
	s.t.Helper()
	s.region = &maassim.Region{Seed: 7, Timing: maassim.Usual.Faster(1e6), Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/20", Gateway: "10.10.0.1", DHCP: true}}}
	listener, err := net.Listen("tcp", net.JoinHostPort(world, maasPort))
	must(s.t, err)
	server := &http.Server{Handler: s.region, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(func() { _ = server.Close() })
}

func (s *scene) newReplica(n int, program, vault string) *replica {
	s.t.Helper()
	b := &replica{machine: newMachine(s.t, n, fmt.Sprintf("broker-%d", n)), t: s.t, program: program, dir: filepath.Join(s.dir, fmt.Sprint("broker-", n))}
	must(s.t, os.Mkdir(b.dir, 0o700))
	data := filepath.Join(b.dir, "data")
	if n == 1 {
		out, err := exec.Command(program, "ca", "init", "--data-dir", data).CombinedOutput()
		if err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
	} else {
		must(s.t, os.Mkdir(data, 0o700))
		must(s.t, exec.Command("cp", "-a", filepath.Join(s.dir, "broker-1", "data", "keys"), data).Run())
	}
	config := fmt.Sprintf("data_dir: %q\ndb: %q\nlisten: %q\nagent_listen: %q\nadvertise: %q\n%s", data, s.pg.url,
		net.JoinHostPort(b.address, operatorPort), net.JoinHostPort(b.address, agentPort), net.JoinHostPort(world, agentPort), vault)
	must(s.t, os.WriteFile(filepath.Join(b.dir, "broker.yaml"), []byte(config), 0o600))
	must(s.t, os.WriteFile(b.clock(), []byte("0"), 0o600))
	var err error
	b.log, err = os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(s.t, err)
	s.t.Cleanup(b.kill)
	return b
}

func (b *replica) clock() string { return filepath.Join(b.dir, "clock") }

// boot starts the broker and returns when the broker answers.
func (b *replica) boot() {
	cmd := exec.Command(b.program, "serve", "--config", filepath.Join(b.dir, "broker.yaml"))
	cmd.Env = append(os.Environ(), "HOSTLER_TEST_CLOCK="+b.clock(), "HOSTLER_TEST_OWN_CLOCK=1")
	cmd.Stderr = b.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for late := time.Now().Add(2 * time.Minute); ; {
		cmd := &exec.Cmd{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Stderr: cmd.Stderr, SysProcAttr: cmd.SysProcAttr}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = b.start(cmd)
		}
		if err != nil {
			b.t.Errorf("%s: %v", b.name, err)
			return
		}
		ended, ready := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "ready ") {
					close(ready)
					break
				}
			}
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait() // the broker's log shows how it ended
		}()
		b.mu.Lock()
		b.cmd, b.ended = cmd, ended
		b.mu.Unlock()
		select {
		case <-ready:
			return
		case <-ended: // the broker does not start without its database; systemd would restart it
			if time.Now().After(late) {
				b.t.Errorf("%s does not start: see %s", b.name, b.log.Name())
				return
			}
			<-time.After(time.Second)
		}
	}
}

// signal sends a signal to the process.
func (b *replica) signal(sig syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		_ = b.cmd.Process.Signal(sig)
	}
}

// end sends a signal and waits for the process to end.
func (b *replica) end(sig syscall.Signal) {
	b.signal(sig)
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

func (b *replica) kill() { b.end(syscall.SIGKILL) }

// balance is a TCP load balancer that tries the brokers in turn.
func balance(t *testing.T, brokers []*replica, port string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(world, port))
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var turn atomic.Uint32
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = near.Close() }()
				for range brokers {
					to := brokers[int(turn.Add(1))%len(brokers)]
					far, err := net.DialTimeout("tcp", net.JoinHostPort(to.address, port), 500*time.Millisecond)
					if err != nil {
						continue
					}
					go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
					_, _ = io.Copy(near, far)
					return
				}
			}()
		}
	}()
}

// connect makes the operator's client from the files of the first broker.
func (s *scene) connect() {
	s.t.Helper()
	data := filepath.Join(s.brokers[0].dir, "data")
	var token []byte
	for _, b := range s.brokers { // the broker that started first has made it
		if raw, err := os.ReadFile(filepath.Join(b.dir, "data", "admin.token")); err == nil {
			token = raw
		}
	}
	if token == nil {
		s.t.Fatal("no broker made an admin's token")
	}
	file, err := clientfile.Load(filepath.Join(data, "client.yaml"))
	must(s.t, err)
	roots, err := file.Roots()
	must(s.t, err)
	root, err := file.Root()
	must(s.t, err)
	s.root = pki.Fingerprint(root)
	s.api = client.New(client.Options{Broker: "https://" + net.JoinHostPort(world, operatorPort), Roots: roots, Token: strings.TrimSpace(string(token)), Version: "chaos", Now: time.Now})
}

// database is a PostgreSQL on a machine of its own.
type database struct {
	*machine
	t   *testing.T
	bin string
	dir string
	url string
	who *syscall.Credential

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

func newDatabase(t *testing.T, m *machine) *database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Fatal("there is no PostgreSQL (make setup-test)")
	}
	d := &database{machine: m, t: t, bin: found[len(found)-1], url: "postgres://hostler@" + m.address + ":5432/postgres?sslmode=disable"}
	u, err := user.Lookup("postgres")
	must(t, err)
	uid, err := strconv.Atoi(u.Uid)
	must(t, err)
	gid, err := strconv.Atoi(u.Gid)
	must(t, err)
	d.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	d.dir, err = os.MkdirTemp("/tmp", "hostler-chaos-")
	must(t, err)
	t.Cleanup(func() { d.end(); _ = os.RemoveAll(d.dir) })
	must(t, os.Chown(d.dir, uid, gid))
	initdb := d.command("initdb", "-D", "data", "-U", "hostler", "-A", "trust", "-E", "UTF8")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	hba, err := os.OpenFile(filepath.Join(d.dir, "data", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = hba.WriteString("host all all 10.77.0.0/24 trust\n")
	must(t, errors.Join(err, hba.Close()))
	d.boot()
	return d
}

func (d *database) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, name), args...)
	cmd.Dir, cmd.Env = d.dir, []string{"PATH=" + d.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.who, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// boot starts the server and returns when the server answers.
func (d *database) boot() {
	cmd := d.command("postgres", "-D", "data", "-k", d.dir, "-h", d.address, "-c", "max_connections=200", "-c", "shared_buffers=128MB")
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		cmd.Stdout, cmd.Stderr = log, log
		err = d.start(cmd)
		_ = log.Close()
	}
	if err != nil {
		d.t.Errorf("PostgreSQL: %v", err)
		return
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	d.mu.Lock()
	d.cmd, d.ended = cmd, ended
	d.mu.Unlock()
	for late := time.Now().Add(time.Minute); ; {
		ready := d.command("pg_isready", "-q", "-h", d.dir, "-U", "hostler", "-d", "postgres")
		if ready.Run() == nil {
			return
		}
		if time.Now().After(late) {
			d.t.Error("PostgreSQL does not come up")
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// schema returns the version of the brokers' last migration of the database.
func (d *database) schema() int64 {
	d.t.Helper()
	out, err := d.command("psql", "-h", d.dir, "-U", "hostler", "-d", "postgres", "-XAtc", "SELECT MAX(version_id) FROM goose_db_version").CombinedOutput()
	version, bad := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err = errors.Join(err, bad); err != nil {
		d.t.Fatalf("cannot read the schema's version: %v: %s", err, out)
	}
	return version
}

// signal sends a signal to the server process, not to its children.
func (d *database) signal(sig syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.cmd.Process.Signal(sig)
}

// end kills the server like a crash: data not yet written is only in the server's log.
func (d *database) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil {
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // ends the children too, and nothing is written
		<-d.ended
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// after waits, unless ctx ends.
func after(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
