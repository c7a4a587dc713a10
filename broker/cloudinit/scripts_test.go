package cloudinit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// host is a machine in a temporary directory, with programs that only write down
// how they were called.
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

// program puts a script in the place of a program of the machine's.
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

var ofTheMachine = regexp.MustCompile(`(^|[^A-Za-z0-9._/-])/(etc|var|share|dev/console|usr/sbin)`)

// here brings all of a text's paths below the host's root: these scripts must
// never reach the machine that the tests run on.
func (h *host) here(text string) string {
	text = ofTheMachine.ReplaceAllString(text, "${1}"+h.root+"/${2}")
	return strings.ReplaceAll(text, "PATH="+h.root+"/usr/sbin", "PATH="+h.root+"/bin")
}

// cloudInit does what it does with our parts at a boot.
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

// files are all below /etc, by path, with their modes.
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
	in := whole(t) // a token that is another makes it another first boot
	in.Token = "hsn_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
	if out, err := h.cloudInit(mustRender(t, in)); err != nil || !strings.Contains(h.read("etc/hostler-agent/enroll.token"), "hsn_BBB") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(h.root, "var/lib/hostler-bootstrap/done")); err == nil {
		t.Error("what was done with the first token stands for the second")
	}
}

// Wherever a boot is cut short, the next one ends as if it had not been.
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
				break // it is not called that often
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

// layer runs a layer as its unit does, and returns its record.
func (h *host) layer(name string) (record, out string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.root, "var/lib/hostler-bootstrap"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.write("layer", h.here(script("layer")), 0o755)
	h.write("etc/hostler-bootstrap/layer-"+name, h.here(script(name)), 0o644)
	said, err := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "run", name).CombinedOutput()
	ended := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "ended", name)
	ended.Env = []string{"SERVICE_RESULT=success"}
	if err != nil {
		ended.Env = []string{"SERVICE_RESULT=exit-code", "EXIT_STATUS=" + fmt.Sprint(err.(*exec.ExitError).ExitCode())}
	}
	if out, err := ended.CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return h.read("var/lib/hostler-bootstrap/layers/" + name), string(said)
}

func TestTheSitesBundleRunsOnceAndOnlyWithItsDigest(t *testing.T) {
	script := "#!/bin/sh\necho ran >>ran\nexit $(cat exit)\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, script) }))
	defer server.Close()
	h := newHost(t)
	state := "var/lib/hostler-bootstrap/"
	h.write(state+"exit", "3\n", 0o644)
	give := func(content string) {
		h.write("etc/hostler-bootstrap/site", fmt.Sprintf("%s/site %x\n", server.URL, sha256.Sum256([]byte(content))), 0o644)
	}
	give("another")
	if record, out := h.layer("site"); !strings.HasPrefix(record, "failed\nwhat http://127.0.0.1") || !strings.Contains(record, "is not sha256:") || h.read(state+"ran") != "" {
		t.Fatalf("%q ran %q: %s", record, h.read(state+"ran"), out)
	}
	give(script)
	if record, out := h.layer("site"); record != "failed\nthe site's bundle ended with status 3\n" {
		t.Fatalf("%q: %s", record, out)
	}
	server.Close() // what was fetched is not fetched again
	h.write(state+"exit", "0\n", 0o644)
	for range 2 {
		if record, out := h.layer("site"); record != "done\n\n" {
			t.Fatalf("%q: %s", record, out)
		}
	}
	if ran := h.read(state + "ran"); ran != "ran\nran\n" {
		t.Errorf("it ran %q, want once with each status", ran)
	}
	h.write("etc/hostler-bootstrap/site", server.URL+"/site "+strings.Repeat("0", 64)+"\n", 0o644)
	if err := os.Remove(filepath.Join(h.root, state, "layers/site")); err != nil {
		t.Fatal(err)
	}
	h.program("curl", "exit 7")
	if record, _ := h.layer("site"); record != "failed\ncannot fetch "+server.URL+"/site (curl's status 7)\n" {
		t.Errorf("%q", record)
	}
}

func TestALayerThatWasEndedFromOutsideSaysByWhat(t *testing.T) {
	h := newHost(t)
	h.write("layer", h.here(script("layer")), 0o755)
	cmd := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "ended", "disks")
	cmd.Env = []string{"SERVICE_RESULT=timeout", "EXIT_STATUS=TERM"}
	if out, err := cmd.CombinedOutput(); err != nil || h.read("var/lib/hostler-bootstrap/layers/disks") != "failed\nit ended by timeout TERM\n" {
		t.Errorf("%v: %s: %q", err, out, h.read("var/lib/hostler-bootstrap/layers/disks"))
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

// rack gives the host disks: NAME TYPE SERIAL, and for each what it holds, by the
// word that the programs answer with.
func (h *host) rack(lines string, holds map[string]string) {
	h.program("lsblk", `case "$*" in *SERIAL*) cat <<'END'
`+lines+`END
;; *MOUNTPOINT*) [ "${holdsmount:-}" != "${5:-}" ] || echo /data;; *TYPE*) echo disk;; esac`)
	h.program("blockdev", "echo 3840755982336")
	known := ""
	for disk, what := range holds {
		known += "*" + disk + ") echo " + what + ";; "
	}
	h.program("wipefs", `case "$*" in *--all*) exit 0;; `+known+`esac`)
	h.program("blkid", "exit 2")
	h.program("mkfs.ext4", "exit 0")
	h.program("mount", "exit 0")
	h.write("etc/fstab", "", 0o644)
}

const twoDisks = "/dev/nvme0n1 disk S6ESNX0T100001\n/dev/nvme1n1 disk S6ESNX0T100002\n/dev/sda disk BOSS\n"

func TestDisksThatAreNotAsExpectedAreAllSpared(t *testing.T) {
	for name, c := range map[string]struct {
		disks  string
		holds  map[string]string
		change func(h *host)
		says   string
	}{
		"missing":        {"/dev/nvme0n1 disk S6ESNX0T100001\n", nil, nil, "there is no disk with serial S6ESNX0T100002"},
		"two of one":     {twoDisks + "/dev/nvme2n1 disk S6ESNX0T100002\n", nil, nil, "more than one disk has serial S6ESNX0T100002"},
		"of other sizes": {twoDisks, nil, func(h *host) { h.program("blockdev", "echo 1") }, "has 1 bytes, and not the 3840755982336 that MAAS found"},
		"known":          {twoDisks, map[string]string{"/dev/nvme1n1": "ext4"}, nil, "disk S6ESNX0T100002 (/dev/nvme1n1) holds something known, and overwrite_known_signatures is not set"},
		"known to blkid": {twoDisks, nil, func(h *host) { h.program("blkid", "echo TYPE=zfs_member") }, "holds something known"},
		"ambiguous":      {twoDisks, nil, func(h *host) { h.program("blkid", "exit 8") }, "holds something known"},
		"mounted":        {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("MOUNTPOINT", "/data")) }, "is mounted or held"},
		"in a RAID":      {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("TYPE", "raid1")) }, "is mounted or held"},
	} {
		h := newHost(t)
		h.rack(c.disks, c.holds)
		if c.change != nil {
			c.change(h)
		}
		h.write("etc/hostler-bootstrap/disks", rendered(t, whole(t))[bootstrapDir+"disks"].Content, 0o644)
		record, out := h.layer("disks")
		if !strings.HasPrefix(record, "failed\n") || !strings.Contains(record, c.says) {
			t.Errorf("%s: %q: %s", name, record, out)
		}
		if calls := h.read("calls"); strings.Contains(calls, "mkfs") || strings.Contains(calls, "--all") || strings.Contains(calls, "mount ") {
			t.Errorf("%s: a disk was touched:\n%s", name, calls)
		}
	}
}

func lsblkWith(column, answer string) string {
	return "case \"$*\" in *SERIAL*) cat <<'END'\n" + twoDisks + "END\n;; *" + column + "*) echo " + answer + ";; *TYPE*) echo disk;; esac"
}

func TestDisksAreMadeOnceAndOverwrittenOnlyWhenTold(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		h := newHost(t)
		holds := map[string]string{}
		if overwrite {
			holds["/dev/nvme1n1"] = "ext4"
			h.write("etc/hostler-bootstrap/disks-overwrite", "yes\n", 0o644)
		}
		h.rack(twoDisks, holds)
		h.write("etc/hostler-bootstrap/disks", rendered(t, whole(t))[bootstrapDir+"disks"].Content, 0o644)
		for range 2 {
			if record, out := h.layer("disks"); record != "done\n\n" {
				t.Fatalf("%q: %s", record, out)
			}
		}
		var made []string
		for line := range strings.Lines(h.read("calls")) {
			if words := strings.Fields(line); words[0] == "mkfs.ext4" {
				made = append(made, words[6]+" "+words[len(words)-1])
			}
		}
		if !slices.Equal(made, []string{"share1 /dev/nvme0n1", "share2 /dev/nvme1n1"}) {
			t.Errorf("file systems were made on %q", made)
		}
		if fstab := h.read("etc/fstab"); strings.Count(fstab, "\n") != 2 || !strings.Contains(fstab, h.root+"/share2 ext4 defaults,nofail 0 2\n") {
			t.Errorf("fstab is\n%s", fstab)
		}
		if strings.Contains(h.read("calls"), "/dev/sda") {
			t.Error("a disk that nobody named was looked at")
		}
	}
}

// A signature that our own mkfs left half-way is no stranger's.
func TestADiskThatWasBegunIsGoneOnWith(t *testing.T) {
	h := newHost(t)
	h.rack(twoDisks, nil)
	h.write("etc/hostler-bootstrap/disks", rendered(t, whole(t))[bootstrapDir+"disks"].Content, 0o644)
	h.program("mkfs.ext4", `case "$*" in *nvme1n1) kill -9 $PPID;; esac`)
	if record, _ := h.layer("disks"); record == "done\n\n" {
		t.Fatal("it was not killed")
	}
	h.rack(twoDisks, map[string]string{"/dev/nvme0n1": "ext4", "/dev/nvme1n1": "ext4"})
	h.write("calls", "", 0o644)
	if record, out := h.layer("disks"); record != "done\n\n" {
		t.Fatalf("%q: %s", record, out)
	}
	if calls := h.read("calls"); strings.Count(calls, "mkfs.ext4 ") != 1 || bytes.Contains([]byte(calls), []byte("mkfs.ext4 -q -F /dev/nvme0n1")) {
		t.Errorf("after it was killed it called\n%s", calls)
	}
}
