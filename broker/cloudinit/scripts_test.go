package cloudinit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// host is a machine in a temporary directory, with programs that only record their calls.
type host struct {
	t    *testing.T
	root string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t, t.TempDir()}
	for _, dir := range []string{"bin", "cloud/boothooks", "cloud/scripts", "dev"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.program("systemctl", "exit 0")
	h.program("sync", "exit 0")
	return h
}

// program replaces a program of the machine with a script.
func (h *host) program(name, does string) {
	h.write("bin/"+name, "#!/bin/sh\necho "+name+" \"$*\" >>'"+h.root+"/calls'\n"+does+"\n", 0o755)
}

func (h *host) write(name, text string, mode os.FileMode) {
	h.t.Helper()
	full := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(h.root, name))
	if err != nil {
		return ""
	}
	return string(raw)
}

var ofTheMachine = regexp.MustCompile(`(^|[^A-Za-z0-9._/-])/(etc|var|sys|share|dev/console|usr/sbin)`)

// here moves all paths of a text below the host's root: these scripts must never reach the machine
// that the tests run on.
func (h *host) here(text string) string {
	text = ofTheMachine.ReplaceAllString(text, "${1}"+h.root+"/${2}")
	return strings.ReplaceAll(text, "PATH="+h.root+"/usr/sbin", "PATH="+h.root+"/bin")
}

// cloudInit does with our parts what cloud-init does at a boot.
func (h *host) cloudInit(userData string) (string, error) {
	h.t.Helper()
	all := parts(h.t, userData)
	h.write("cloud/scripts/"+dataPart, h.here(all[dataPart]), 0o700)
	return h.boot(all)
}

func (h *host) boot(all map[string]string) (string, error) {
	name := "cloud/boothooks/" + scriptPart
	h.write(name, h.here(strings.TrimPrefix(all[scriptPart], "#cloud-boothook\n")), 0o700)
	out, err := exec.Command(filepath.Join(h.root, name)).CombinedOutput()
	return string(out), err
}

// files returns all files below /etc, by path, with their modes.
func (h *host) files() map[string]file {
	all := map[string]file{}
	etc := filepath.Join(h.root, "etc")
	_ = filepath.WalkDir(etc, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, _ := d.Info()
			all[strings.TrimPrefix(path, h.root)] = file{fmt.Sprintf("%04o", info.Mode().Perm()), h.read(strings.TrimPrefix(path, h.root))}
		}
		return err
	})
	return all
}

func mustRender(t *testing.T, in Input) string {
	t.Helper()
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatIsRenderedIsWhatIsLaidOut(t *testing.T) {
	h, in := newHost(t), whole(t)
	if out, err := h.cloudInit(mustRender(t, in)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := rendered(t, in)
	got := h.files()
	for path, f := range want {
		f.Content = h.here(f.Content)
		if got[path].Mode != f.Mode || strings.ReplaceAll(got[path].Content, h.root, "") != strings.ReplaceAll(f.Content, h.root, "") {
			t.Errorf("%s is %+v, want %+v", path, got[path], f)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files are laid out, want %d", len(got), len(want))
	}
	for _, link := range []string{
		"multi-user.target.wants/hostler-bootstrap.service", "multi-user.target.wants/hostler-layer@disks.service", "cloud-init.target.wants/hostler-layer@hw-sync.service",
	} {
		if _, err := os.Stat(filepath.Join(h.root, unitDir, link)); err != nil {
			t.Errorf("a unit would not start at the next boot: %v", err)
		}
	}
	calls := h.read("calls")
	if !strings.HasSuffix(calls, "systemctl daemon-reload\nsystemctl start --no-block hostler-layer@site.service hostler-layer@hw-sync.service hostler-layer@disks.service hostler-layer@roce.service hostler-bootstrap-clock.service hostler-bootstrap.service\n") {
		t.Errorf("what was called is\n%s", calls)
	}
}

// The token is removed after the enrolment was recorded, because without the token the enrolment
// could not be retried. A reset between the two leaves a used token.
func TestAUsedTokenThatWasLeftGoesAtTheNextBoot(t *testing.T) {
	const token, next = "etc/hostler-agent/enroll.token", "hsn_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB\n"
	h, text := newHost(t), mustRender(t, whole(t))
	boot := func() string {
		if out, err := h.cloudInit(text); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return h.read(token)
	}
	boot()
	if boot() != whole(t).Token.Reveal()+"\n" {
		t.Fatal("a token that was not used is not there any more")
	}
	h.write("var/lib/hostler-bootstrap/done", "", 0o644)
	boot()
	if _, err := os.Lstat(filepath.Join(h.root, token)); err == nil {
		t.Error("a used token was left")
	}
	h.write(token, next, 0o600)
	if boot() != next {
		t.Error("a token of a later enrolment is gone")
	}
}

func TestALaterBootLaysNothingOutAgain(t *testing.T) {
	h, text := newHost(t), mustRender(t, whole(t))
	if out, err := h.cloudInit(text); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.write("etc/hostler-agent/config.yaml", "an operator's\n", 0o644)
	h.write("var/lib/hostler-bootstrap/done", "", 0o644)
	before := h.read("calls")
	if out, err := h.cloudInit(text); err != nil || out != "" {
		t.Fatalf("%v: %s", err, out)
	}
	if h.read("etc/hostler-agent/config.yaml") != "an operator's\n" || h.read("calls") != before {
		t.Error("a second boot changed something")
	}
	if _, err := os.Stat(filepath.Join(h.root, "var/lib/hostler-bootstrap/done")); err != nil {
		t.Error("a second boot begins anew")
	}
	in := whole(t) // another token makes another first boot
	in.Token = "hsn_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
	if out, err := h.cloudInit(mustRender(t, in)); err != nil || !strings.Contains(h.read("etc/hostler-agent/enroll.token"), "hsn_BBB") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(h.root, "var/lib/hostler-bootstrap/done")); err == nil {
		t.Error("what was done with the first token stands for the second")
	}
}

// Wherever a boot is cut short, the result of the next boot is complete.
func TestALayOutThatWasKilledIsWholeAfterTheNextBoot(t *testing.T) {
	text := mustRender(t, whole(t))
	clean := newHost(t)
	if out, err := clean.cloudInit(text); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := clean.files()
	for _, victim := range []string{"mkdir", "mv", "chmod", "ln", "rm", "sync", "systemctl"} {
		for _, nth := range []int{1, 9} {
			h := newHost(t)
			h.program(victim, fmt.Sprintf(`[ "$(grep -c '^%s ' '%s/calls')" -ne %d ] || kill -9 $PPID; PATH=/usr/bin:/bin; exec %s "$@"`, victim, h.root, nth, map[bool]string{true: "true", false: victim}[victim == "systemctl" || victim == "sync"]))
			if _, err := h.cloudInit(text); err == nil {
				break // the program is not called that often
			}
			if err := os.Remove(filepath.Join(h.root, "bin", victim)); err != nil {
				t.Fatal(err)
			}
			h.program("systemctl", "exit 0")
			laid := h.read("var/lib/hostler-bootstrap/laid-out") != ""
			if out, err := h.cloudInit(text); err != nil {
				t.Fatalf("killed at %s %d: %v: %s", victim, nth, err, out)
			}
			got := h.files()
			for path, f := range want {
				if got[path].Mode != f.Mode || strings.ReplaceAll(got[path].Content, h.root, "") != strings.ReplaceAll(f.Content, clean.root, "") {
					t.Fatalf("killed at %s %d (laid out: %v): %s is %+v", victim, nth, laid, path, got[path])
				}
			}
			for path := range got {
				if _, ok := want[path]; !ok {
					t.Errorf("killed at %s %d: %s is left over", victim, nth, path)
				}
			}
		}
	}
}

func TestDataThatIsNotWholeOrSpentIsNotLaidOut(t *testing.T) {
	text := mustRender(t, whole(t))
	for name, change := range map[string]struct {
		do   func(string) string
		fine bool
	}{
		"cut off":           {func(s string) string { return s[:len(s)/2] + "\n" }, false},
		"of another format": {func(s string) string { return strings.Replace(s, "bundle 1 ", "bundle 2 ", 1) }, false},
		"empty":             {func(string) string { return "" }, false},
		"struck out":        {func(s string) string { return strings.ReplaceAll(s, whole(t).Token.Reveal(), strings.Repeat("x", 47)) }, true},
	} {
		h, all := newHost(t), parts(t, text)
		h.write("cloud/scripts/"+dataPart, h.here(change.do(all[dataPart])), 0o700)
		out, err := h.boot(all)
		if (err == nil) != change.fine {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if got := h.files(); len(got) != 0 || h.read("calls") != "" {
			t.Errorf("%s: it changed %d files and called %q", name, len(got), h.read("calls"))
		}
	}
}

func TestHardwareSyncThatDidNotArriveIsNamed(t *testing.T) {
	h := newHost(t)
	if record, _ := h.layer("hw-sync"); record != "failed\nMAAS's "+h.root+"/etc/maas/maas-machine-creds.yml is not there\n" {
		t.Errorf("%q", record)
	}
	h.write("etc/maas/maas-machine-creds.yml", "x", 0o700)
	h.program("systemctl", `[ "$*" != "cat maas_hardware_sync.timer" ]`)
	if record, _ := h.layer("hw-sync"); !strings.HasPrefix(record, "failed\nMAAS's unit maas_hardware_sync.timer is not there") {
		t.Errorf("%q", record)
	}
	h.program("systemctl", "exit 0")
	if record, out := h.layer("hw-sync"); record != "done\n\n" {
		t.Errorf("%q: %s", record, out)
	}
}

func TestEachRoCEInterfaceHasATableOfItsOwn(t *testing.T) {
	h := newHost(t)
	h.program("sleep", "exit 0")
	h.program("ip", `case "$*" in *"dev enp28s0np0") echo "2: enp28s0np0 inet 172.30.9.61/31 scope global";; "rule del"*) exit 2;; esac`)
	h.write("etc/hostler-bootstrap/roce", rendered(t, whole(t))[bootstrapDir+"roce"].Content, 0o644)
	if record, _ := h.layer("roce"); record != "failed\ninterface enp29s0np0 has not got its address 172.29.1.218\n" {
		t.Errorf("%q", record)
	}
	h.program("ip", `case "$*" in -4*) echo "inet 172.30.9.61/31 inet 172.29.1.218/31 inet 172.28.7.9/24";; "rule del"*) exit 2;; esac`)
	h.write("calls", "", 0o644)
	for range 2 { // at every boot
		if record, out := h.layer("roce"); record != "done\n\n" {
			t.Fatalf("%q: %s", record, out)
		}
	}
	for _, call := range []string{
		"ip route replace 172.30.9.60/31 dev enp28s0np0 src 172.30.9.61 table 1000\n", "ip route replace default via 172.30.9.60 dev enp28s0np0 src 172.30.9.61 table 1000\n",
		"ip rule add from 172.30.9.61 table 1000 priority 1000\n", "ip route replace default via 172.29.1.219 dev enp29s0np0 src 172.29.1.218 table 1001\n",
		"ip route replace 172.28.7.0/24 dev enp62s0np0 src 172.28.7.9 table 1002\n",
	} {
		if strings.Count(h.read("calls"), call) != 2 {
			t.Errorf("it is not called at each of two boots: %s", call)
		}
	}
	if strings.Contains(h.read("calls"), "dev enp62s0np0 src 172.28.7.9 table 1002 default") || strings.Contains(h.read("calls"), "default via - ") {
		t.Error("a network of many gets a gateway that nobody named")
	}
}
