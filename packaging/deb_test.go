//go:build e2e

package packaging

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/qemu"
)

// machine is a guest, restored to its snapshot for a test case.
type machine struct {
	*testing.T
	guest *qemu.Guest
}

func TestPackagesOnAMachine(t *testing.T) {
	img, err := qemu.BuildImage(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pool := qemu.NewPool(func(ctx context.Context) (*qemu.Guest, error) { return withPackages(ctx, img, dir) })
	t.Cleanup(func() { pool.Close() })
	for _, c := range []struct {
		rule string
		test func(machine)
	}{
		{"AFirstInstallEnablesTheAgentAndDoesNotStartIt", firstInstall},
		{"TheAgentHasNoNamespaceOfItsOwn", namespaces},
		{"AnUpgradeMovesToTheNewVersion", upgrade},
		{"AnUpgradeDoesNotUndoASelfUpdate", afterSelfUpdate},
		{"AnUpgradeThatTakesTheGoodVersionAwayLeavesAWatcher", goodTaken},
		{"TheAgentsChildrenEndWithItAndOtherUnitsDoNot", children},
		{"APurgeLeavesNothing", purge},
		{"TheBrokerRunsAsItsOwnUser", brokerRuns},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			pool.Turn(t)
			c.test(machine{t, pool.Guest(t, t.Context(), fresh)})
		})
	}
}

// fresh is the snapshot from which each case starts.
const fresh = "fresh"

// withPackages boots a guest, and builds the packages in a directory meanwhile.
func withPackages(ctx context.Context, img *qemu.Image, dir string) (*qemu.Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	guest, err := qemu.Boot(ctx, img, qemu.Config{Name: "n1", CPUs: 1})
	if err != nil {
		return nil, err
	}
	files, err := packages(ctx, dir)
	if err != nil {
		return guest, err
	}
	for _, wait := range []func(context.Context) error{guest.WaitSSH, guest.WaitCloudInit, guest.WaitBooted} {
		if err := wait(ctx); err != nil {
			return guest, err
		}
	}
	for name, content := range files {
		if err := guest.Put(ctx, "/root/"+name, content, 0o644); err != nil {
			return guest, err
		}
	}
	return guest, guest.SaveVM(ctx, fresh)
}

func firstInstall(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.is("enabled", "systemctl", "is-enabled", "hostler-agent")
	if _, err := m.guest.Run(m.Context(), "systemctl", "is-active", "hostler-agent"); err == nil {
		m.Error("the agent runs before it was enrolled")
	}
	m.is("0.1.0", "hostler-agent", "version")
	m.is("/usr/lib/hostler-agent/versions/0.1.0/hostler-agent", "readlink", "-f", "/usr/bin/hostler-agent")
	m.is("", "dpkg", "--verify", "hostler-agent")
}

func namespaces(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("systemctl", "start", "hostler-agent")
	pid := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent")
	kinds := strings.Fields(m.out("ls", "/proc/1/ns"))
	if len(kinds) < 8 {
		m.Fatalf("only %v are compared", kinds)
	}
	of := func(pid string) []string {
		argv := []string{"readlink"}
		for _, kind := range kinds {
			argv = append(argv, "/proc/"+pid+"/ns/"+kind)
		}
		return strings.Fields(m.out(argv...))
	}
	if agent, init := of(pid), of("1"); !slices.Equal(agent, init) {
		m.Errorf("the agent is in %v, PID 1 in %v", agent, init)
	}
	var residue, seen []string
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/root", "/home", "/run"} {
		residue = append(residue, dir+"/tenant-residue")
		seen = append(seen, "/proc/"+pid+"/root"+dir+"/tenant-residue")
	}
	m.out(append([]string{"touch"}, residue...)...)
	m.out(append([]string{"stat"}, seen...)...)
	checkExposure(m.T, "hostler-agent", m.out("systemd-analyze", "security", "--no-pager", "hostler-agent.service"), maxExposure["hostler-agent"])
	m.is("700 root", "stat", "-c", "%a %U", "/var/lib/hostler-agent")
}

func upgrade(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("systemctl", "start", "hostler-agent")
	before := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent")
	m.out("dpkg", "-i", "/root/agent-0.2.0.deb")
	m.is("0.2.0", "hostler-agent", "version")
	m.is("0.2.0", "ls", "/usr/lib/hostler-agent/versions")
	after := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent")
	if before == after {
		m.Error("the old version still runs")
	}
	m.is("/usr/lib/hostler-agent/versions/0.2.0/hostler-agent", "readlink", "/proc/"+after+"/exe")
}

func goodTaken(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("cp", "-r", "/usr/lib/hostler-agent/versions/0.1.0", "/usr/lib/hostler-agent/versions/0.9.0")
	m.out("ln", "-sfn", "versions/0.9.0", "/usr/lib/hostler-agent/current")
	m.out("ln", "-sfn", "versions/0.1.0", "/usr/lib/hostler-agent/good")
	m.out("dpkg", "-i", "/root/agent-0.2.0.deb")
	m.is("versions/0.2.0", "readlink", "/usr/lib/hostler-agent/good")
	m.is("versions/0.9.0", "readlink", "/usr/lib/hostler-agent/current")
	if m.out("systemctl", "show", "-P", "InvocationID", "hostler-agent-watch") == "" {
		m.Error("the watcher was not started")
	}
}

func afterSelfUpdate(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("cp", "-r", "/usr/lib/hostler-agent/versions/0.1.0", "/usr/lib/hostler-agent/versions/0.9.0")
	m.out("ln", "-sfn", "versions/0.9.0", "/usr/lib/hostler-agent/current")
	m.out("systemctl", "start", "hostler-agent")
	m.out("dpkg", "-i", "/root/agent-0.2.0.deb")
	m.is("versions/0.9.0", "readlink", "/usr/lib/hostler-agent/current")
	m.is("versions/0.2.0", "readlink", "/usr/lib/hostler-agent/packaged")
	pid := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent")
	m.is("/usr/lib/hostler-agent/versions/0.9.0/hostler-agent", "readlink", "/proc/"+pid+"/exe")
}

func children(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("systemctl", "start", "hostler-agent")
	m.out("systemd-run", "--unit=session-unit", "sleep", "infinity")
	pid := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent")
	child := m.out("pgrep", "-P", pid, "sleep")
	m.out("kill", "-9", pid)
	m.until("test", "!", "-e", "/proc/"+child)
	m.until("systemctl", "is-active", "--quiet", "hostler-agent")
	if again := m.out("systemctl", "show", "-P", "MainPID", "hostler-agent"); again == pid {
		m.Error("the agent was not killed")
	}
	m.is("active", "systemctl", "is-active", "session-unit")
	m.out("systemctl", "stop", "hostler-agent")
	m.is("active", "systemctl", "is-active", "session-unit")
}

func purge(m machine) {
	m.out("dpkg", "-i", "/root/agent-0.1.0.deb")
	m.out("systemctl", "start", "hostler-agent")
	m.out("mkdir", "/usr/lib/hostler-agent/versions/0.9.0")
	m.out("touch", "/etc/hostler-agent/config.yaml", "/var/lib/hostler-agent/key")
	// The files that cloud-init writes during a bootstrap, to fetch the package.
	m.out("mkdir", "/etc/hostler-bootstrap", "/var/lib/hostler-bootstrap", "/etc/systemd/system/hostler-bootstrap-fetch@1.service.d")
	m.out("touch", "/etc/hostler-bootstrap/source-0", "/var/lib/hostler-bootstrap/done", "/etc/systemd/system/hostler-bootstrap-fetch@1.service.d/order.conf")
	for _, unit := range []string{"hostler-bootstrap", "hostler-bootstrap-clock", "hostler-bootstrap-fetch@"} {
		m.out("touch", "/etc/systemd/system/"+unit+".service")
	}
	for _, unit := range []string{"hostler-bootstrap", "hostler-bootstrap-clock"} {
		m.out("ln", "-s", "/etc/systemd/system/"+unit+".service", "/etc/systemd/system/multi-user.target.wants/"+unit+".service")
	}
	m.out("dpkg", "--remove", "hostler-agent")
	m.is("/var/lib/hostler-bootstrap/done", "ls", "/var/lib/hostler-bootstrap/done")
	if r, err := m.guest.Run(m.Context(), "pgrep", "-f", "^/usr/bin/hostler-agent"); err == nil {
		m.Errorf("the agent outlives its package: %s", r.Stdout)
	}
	m.is("/var/lib/hostler-agent/key", "ls", "/var/lib/hostler-agent/key")
	m.out("dpkg", "--purge", "hostler-agent")
	m.is("", "find", "/etc", "/usr", "/var/lib", "/run", "-xdev", "-name", "*hostler*")
}

func brokerRuns(m machine) {
	m.out("dpkg", "-i", "/root/broker-0.1.0.deb")
	m.out("test", "-x", "/usr/bin/hostler-verify")
	m.until("systemctl", "is-active", "--quiet", "hostler-broker")
	pid := m.out("systemctl", "show", "-P", "MainPID", "hostler-broker")
	m.is("hostler-broker", "stat", "-c", "%U", "/proc/"+pid)
	m.is("700 hostler-broker", "stat", "-c", "%a %U", "/var/lib/hostler-broker")
	m.is("262144", "systemctl", "show", "-P", "LimitNOFILE", "hostler-broker")
	checkExposure(m.T, "hostler-broker", m.out("systemd-analyze", "security", "--no-pager", "hostler-broker.service"), maxExposure["hostler-broker"])
	m.out("dpkg", "--purge", "hostler-broker")
	m.is("700", "stat", "-c", "%a", "/var/lib/hostler-broker")
}

// out runs a command in the guest and returns its output. The test fails if the command fails.
func (m machine) out(argv ...string) string {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Minute)
	defer cancel()
	r, err := m.guest.Run(ctx, argv...)
	if err != nil {
		m.Fatal(err)
	}
	return strings.TrimSpace(r.Stdout)
}

func (m machine) is(want string, argv ...string) {
	m.Helper()
	if got := m.out(argv...); got != want {
		m.Errorf("%s says %q, want %q", strings.Join(argv, " "), got, want)
	}
}

// until repeats a command in the guest until the command succeeds.
func (m machine) until(argv ...string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Minute)
	defer cancel()
	if err := m.guest.WaitFor(ctx, argv...); err != nil {
		m.Fatal(err)
	}
}

// packages builds the packages in a directory, with a stand-in for the programs.
func packages(ctx context.Context, dir string) (map[string][]byte, error) {
	const top = ".."
	for _, link := range []string{"packaging", "LICENSE"} {
		from, err := filepath.Abs(filepath.Join(top, link))
		if err != nil {
			return nil, err
		}
		if err := os.Symlink(from, filepath.Join(dir, link)); err != nil {
			return nil, err
		}
	}
	nfpm, err := tool(ctx, top, nil, "go", "tool", "-modfile=.ci/tools.mod", "-n", "nfpm")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, p := range []struct{ name, version string }{{"agent", "0.1.0"}, {"agent", "0.2.0"}, {"broker", "0.1.0"}} {
		for _, program := range []string{"hostler-agent", "hostler-broker", "hostler", "hostler-verify"} {
			if _, err := tool(ctx, ".", []string{"CGO_ENABLED=0"}, "go", "build", "-ldflags=-X main.version="+p.version,
				"-o", filepath.Join(dir, "bin", program), "./testdata/daemon"); err != nil {
				return nil, err
			}
		}
		deb := filepath.Join(dir, p.name+"-"+p.version+".deb")
		if _, err := tool(ctx, dir, []string{"VERSION=" + p.version}, strings.TrimSpace(nfpm), "package", "-f", "packaging/deb/"+p.name+".yaml", "-p", "deb", "-t", deb); err != nil {
			return nil, err
		}
		content, err := os.ReadFile(deb)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(deb)] = content
	}
	return files, nil
}

func tool(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s%s", name, args, err, out, said.Bytes())
	}
	return string(out), nil
}
