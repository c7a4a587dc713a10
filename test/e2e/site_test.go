//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

const (
	bin      = "../../bin"
	node     = "gpu-01"
	booted   = "booted"
	caseTime = 6 * time.Minute
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
	return shared.guest.SaveVM(ctx, booted)
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
	debs, err := filepath.Glob("../../dist/hostler-agent_*_amd64.deb")
	if err != nil || len(debs) == 0 {
		t.Fatalf("cannot find the agent's package (make package): %v", err)
	}
	slices.Sort(debs)
	return debs[len(debs)-1]
}

// restore puts the shared guest back to where it had booted and had never
// heard of Hostler.
func (s *site) restore() {
	s.t.Helper()
	s.guest = shared.guest
	if err := s.guest.LoadVM(s.ctx, booted, time.Now()); err != nil {
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
	s.restore()
	s.enrol()
	return s
}

// enrol installs the package on the restored guest and gives it its token, as
// an operator would by hand.
func (s *site) enrol() {
	s.t.Helper()
	var made struct {
		Token    string `json:"token"`
		URL      string `json:"broker_url"`
		CASHA256 string `json:"ca_sha256"`
	}
	s.json(&made, "node", "create", "--hostname", node, "--bootstrap", "command")
	deb, err := os.ReadFile(agentPackage(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	s.put("/root/agent.deb", deb, 0o600)
	config := fmt.Sprintf("broker: %s\nca_sha256: %s\ntoken_file: /etc/hostler-agent/enroll.token\n%s", made.URL, made.CASHA256, s.config)
	s.root("mkdir", "-p", "/etc/hostler-agent")
	s.put("/etc/hostler-agent/config.yaml", []byte(config), 0o644)
	s.put("/etc/hostler-agent/enroll.token", []byte(made.Token+"\n"), 0o600)
	s.root("dpkg", "-i", "/root/agent.deb")
	s.root("rm", "/root/agent.deb")
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

// task is what a case reads of a task.
type task struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Outcome  string          `json:"outcome"`
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	Verdict  string          `json:"verdict"`
	Attempt  int             `json:"attempt"`
	Result   json.RawMessage `json:"result"`
	Evidence bool            `json:"evidence"`
}

// enqueue orders a task and returns at once.
func (s *site) enqueue(taskType string, params any) task {
	s.t.Helper()
	var t task
	s.json(&t, s.order(taskType, params)...)
	return t
}

// do orders a task and waits for its end, whatever that is.
func (s *site) do(taskType string, params any) task {
	s.t.Helper()
	return s.end(s.enqueue(taskType, params).ID)
}

// must is do for a task that has to succeed.
func (s *site) must(taskType string, params any) task {
	s.t.Helper()
	t := s.do(taskType, params)
	if t.Status != "succeeded" {
		s.t.Fatalf("%s ended %s: %s: %s\n%s", taskType, t.Status, t.Code, t.Message, s.hostler("task", "show", t.ID))
	}
	return t
}

func (s *site) order(taskType string, params any) []string {
	s.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.Path("params.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return []string{"task", "enqueue", node, taskType, "--params", file, "--yes"}
}

// end waits for a task's end.
func (s *site) end(id string) task {
	s.t.Helper()
	var t task
	err := s.Wait(s.ctx, "task "+id, func() error {
		s.json(&t, "task", "show", id)
		if t.Status == "queued" || t.Status == "dispatched" {
			return fmt.Errorf("it is %s", t.Status)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// evidence reads the accepted evidence of a task.
func (s *site) evidence(id string) taskcatalog.Evidence {
	s.t.Helper()
	var shown struct {
		Report *struct {
			Evidence taskcatalog.Evidence `json:"evidence"`
		} `json:"report"`
	}
	s.json(&shown, "task", "show", id)
	if shown.Report == nil {
		s.t.Fatalf("task %s has no evidence", id)
	}
	return shown.Report.Evidence
}

// provision makes the tenant's account.
func (s *site) provision(allocation, user string) {
	s.t.Helper()
	key := strings.Fields(s.root("cat", "/etc/ssh/ssh_host_ed25519_key.pub"))
	s.must("allocation.provision_user", map[string]any{
		"allocation_id": allocation, "username": user, "ssh_keys": []string{key[0] + " " + key[1] + " tenant"},
	})
}
