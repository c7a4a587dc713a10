//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

const (
	bin      = "../../bin"
	node     = "gpu-01"
	caseTime = 8 * time.Minute
)

// The moments that a case starts from.
const (
	booted    = "booted"    // the guest has never heard of Hostler
	installed = "installed" // it has the agent's package, which has nothing to do yet
)

// shared is the one guest that the cases take turns with, and its image.
var shared struct {
	image *qemu.Image
	guest *qemu.Guest
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	err := prepare(ctx)
	if shared.guest != nil {
		defer shared.guest.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the guest:", err)
		return 1
	}
	return m.Run()
}

func prepare(ctx context.Context) (err error) {
	if shared.image, err = qemu.BuildImage(ctx, os.Stderr); err != nil {
		return err
	}
	if shared.guest, err = qemu.Boot(ctx, shared.image, qemu.Config{Name: node, CPUs: 1, ReachHost: true}); err != nil {
		return err
	}
	if err := shared.guest.WaitCloudInit(ctx); err != nil {
		return err
	}
	if err := shared.guest.WaitBooted(ctx); err != nil {
		return err
	}
	// Nobody deployed this machine with Hostler's user-data: it is for its operator to
	// turn cloud-init off.
	if _, err := shared.guest.Run(ctx, "touch", firstboot.Off); err != nil {
		return err
	}
	if err := shared.guest.SaveVM(ctx, booted); err != nil {
		return err
	}
	file, err := agentDeb()
	if err != nil {
		return err
	}
	deb, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := shared.guest.Put(ctx, "/root/agent.deb", deb, 0o600); err != nil {
		return err
	}
	if _, err := shared.guest.Run(ctx, "dpkg", "-i", "/root/agent.deb"); err != nil {
		return err
	}
	if _, err := shared.guest.Run(ctx, "rm", "/root/agent.deb"); err != nil {
		return err
	}
	return shared.guest.SaveVM(ctx, installed)
}

// site is what a case works with: a broker of its own and the guest.
type site struct {
	*lab.Lab
	t     *testing.T
	ctx   context.Context
	guest *qemu.Guest
	// config is more lines for the agent's config.
	config string
}

// newSite starts a broker with a published agent. There is no node yet.
func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTime)
	t.Cleanup(cancel)
	l, err := lab.New(bin, qemu.HostAddress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("broker:\n%s", l.BrokerLog())
		}
		l.Close()
	})
	s := &site{Lab: l, t: t, ctx: ctx}
	if err := l.StartBroker(ctx); err != nil {
		t.Fatal(err)
	}
	s.hostler("agent-release", "publish", agentPackage(t))
	return s
}

func agentPackage(t *testing.T) string {
	t.Helper()
	file, err := agentDeb()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func agentDeb() (string, error) {
	debs, err := filepath.Glob("../../dist/hostler-agent_*_amd64.deb")
	if err != nil || len(debs) == 0 {
		return "", fmt.Errorf("cannot find the agent's package (make package): %v", err)
	}
	slices.Sort(debs)
	return debs[len(debs)-1], nil
}

// restore puts the shared guest back to a moment.
func (s *site) restore(moment string) {
	s.t.Helper()
	s.guest = shared.guest
	if err := s.guest.LoadVM(s.ctx, moment, time.Now()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			r, _ := s.guest.Run(context.Background(), "journalctl", "--no-pager", "-n", "60", "-u", "hostler-agent")
			s.t.Logf("agent:\n%s%s", r.Stdout, r.Stderr)
		}
	})
}

// enrolled is a site whose node has enrolled and is active.
func enrolled(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.restore(installed)
	s.enrol()
	return s
}

// part is a part of the case, on the same node, in the order of its parts.
func (s *site) part(name string, do func(*site)) {
	s.t.Helper()
	s.t.Run(name, func(t *testing.T) {
		of := *s
		of.t = t
		do(&of)
	})
}

// enrol gives the guest, which has the package, its config and token, as an
// operator would by hand.
func (s *site) enrol() {
	s.t.Helper()
	var made struct {
		Token    string `json:"token"`
		URL      string `json:"broker_url"`
		CASHA256 string `json:"ca_sha256"`
	}
	s.json(&made, "node", "create", "--hostname", node, "--bootstrap", "command")
	config := fmt.Sprintf("broker: %s\nca_sha256: %s\ntoken_file: /etc/hostler-agent/enroll.token\n%s", made.URL, made.CASHA256, s.config)
	s.root("mkdir", "-p", "/etc/hostler-agent")
	s.put("/etc/hostler-agent/config.yaml", []byte(config), 0o644)
	s.put("/etc/hostler-agent/enroll.token", []byte(made.Token+"\n"), 0o600)
	s.root("systemctl", "enable", "--now", "hostler-agent")
	s.waitNode("active")
}

func (s *site) waitNode(status string) {
	s.t.Helper()
	if err := s.WaitNode(s.ctx, node, status); err != nil {
		s.t.Fatal(err)
	}
}

// hostler runs an operator's command that must succeed.
func (s *site) hostler(args ...string) string {
	s.t.Helper()
	out, err := s.Hostler(s.ctx, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *site) json(out any, args ...string) {
	s.t.Helper()
	if err := s.JSON(s.ctx, out, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) put(path string, content []byte, mode os.FileMode) {
	s.t.Helper()
	if err := s.guest.Put(s.ctx, path, content, mode); err != nil {
		s.t.Fatal(err)
	}
}

// root runs a command as root in the guest, which must succeed, and returns
// what it printed.
func (s *site) root(argv ...string) string {
	s.t.Helper()
	r, err := s.guest.Run(s.ctx, argv...)
	if err != nil || r.Exit != 0 {
		s.t.Fatalf("in the guest: %s: %v, exit %d: %s", strings.Join(argv, " "), err, r.Exit, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// as runs a tenant's shell line in the guest: what people type is shell.
func (s *site) as(user, line string) string {
	s.t.Helper()
	return s.root("runuser", "-u", user, "--", "sh", "-c", line)
}

// provision makes the tenant's account.
func (s *site) provision(allocation, user string) {
	s.t.Helper()
	key := strings.Fields(s.root("cat", "/etc/ssh/ssh_host_ed25519_key.pub"))
	s.must("allocation.provision_user", map[string]any{
		"allocation_id": allocation, "username": user, "ssh_keys": []string{key[0] + " " + key[1] + " tenant"},
	})
}
