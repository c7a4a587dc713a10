package cloudinit

import (
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
	server.Close() // a fetched bundle is not fetched again
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

// A tenant with root may have planted links where a layer writes as root at the next boot.
func TestALayerWritesThroughNoLinkThatWasPlanted(t *testing.T) {
	const state = "var/lib/hostler-bootstrap/"
	for _, planted := range []string{"layers/hw-sync", "layers/hw-sync.new", "layers/hw-sync.said"} {
		h := newHost(t)
		h.write("victim/file", "theirs", 0o644)
		h.write(state+"layers/site", "done\n", 0o644)
		to := "victim/file"
		if planted == "layers/hw-sync" {
			to = "victim" // a move would go into this directory
		}
		if err := os.Symlink(filepath.Join(h.root, to), filepath.Join(h.root, state, planted)); err != nil {
			t.Fatal(err)
		}
		record, out := h.layer("hw-sync")
		if !strings.HasPrefix(record, "failed\nMAAS's ") {
			t.Errorf("%s: %q: %s", planted, record, out)
		}
		if in, err := os.ReadDir(filepath.Join(h.root, "victim")); err != nil || len(in) != 1 || h.read("victim/file") != "theirs" {
			t.Errorf("%s: it was followed: %v, %q", planted, in, h.read("victim/file"))
		}
	}
	h := newHost(t)
	h.write("victim/file", "theirs", 0o644)
	h.write(state+"laid-out", "", 0o644)
	if err := os.Symlink(filepath.Join(h.root, "victim"), filepath.Join(h.root, state, "layers")); err != nil {
		t.Fatal(err)
	}
	h.write("layer", h.here(script("layer")), 0o755)
	for _, verb := range []string{"run", "ended"} {
		out, err := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), verb, "hw-sync").CombinedOutput()
		if in, _ := os.ReadDir(filepath.Join(h.root, "victim")); err == nil || len(in) != 1 || !strings.Contains(string(out), "layers is a link") {
			t.Errorf("%s in a directory that is a link: %v, %s: %v", verb, err, out, in)
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

// rack gives the host disks: NAME TYPE SERIAL. A disk's content is a UUID in on/NAME, and its mount
// is a line in mounts/PLACE.
func (h *host) rack(lines string, holds map[string]string) {
	for _, dir := range []string{"on", "mounts"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	for disk, uuid := range holds {
		h.write("on/"+filepath.Base(disk), uuid, 0o644)
	}
	for line := range strings.Lines(lines) {
		h.write(strings.Fields(line)[0], "", 0o644)
	}
	disk := `for last; do :; done; disk='` + h.root + `/on/'${last##*/}; `
	h.program("lsblk", `case "$*" in *SERIAL*) cat <<'END'
`+lines+`END
;; *MOUNTPOINT*) for last; do :; done; grep -rqsx "$last" '`+h.root+`/mounts' && echo /data; exit 0;; *TYPE*) echo disk; echo part;; esac`)
	h.program("blockdev", "echo 3840755982336")
	h.program("wipefs", disk+`case "$*" in *--all*) rm -f "$disk";; *) [ ! -e "$disk" ] || echo 0x438,x,x,ext4;; esac`)
	h.program("blkid", disk+`[ -e "$disk" ] || exit 2; case "$*" in *--match-tag*) cat "$disk";; *) echo TYPE=ext4;; esac`)
	h.program("perl", `exec /usr/bin/perl "$1" "$2" "$3" '`+h.root+`'"$4"`)
	h.program("mkfs.ext4", disk+`echo "$4" >"$disk"`)
	h.program("mount", `echo "$3" >>'`+h.root+`/mounts/'"${4##*/}"`)
	h.program("findmnt", `grep -qsx "$2" '`+h.root+`/mounts/'"${4##*/}"`)
	h.write("etc/hostler-bootstrap/disks", rendered(h.t, whole(h.t))[bootstrapDir+"disks"].Content, 0o644)
}

const (
	twoDisks = "/dev/nvme0n1 disk S6ESNX0T100001\n/dev/nvme1n1 disk S6ESNX0T100002\n/dev/sda disk BOSS\n"
	foreign  = "6f0c5bd6-5c2f-4c5f-8d0a-0d1a0f2f7a11"
)

// touched matches the calls that change a disk.
var touched = regexp.MustCompile(`(?m)^(wipefs .*--all|mkfs|mount ).*`)

func TestDisksThatAreNotAsExpectedAreAllSpared(t *testing.T) {
	held := "disk S6ESNX0T100002 (/dev/nvme1n1) is mounted or held"
	for name, c := range map[string]struct {
		disks  string
		holds  map[string]string
		change func(h *host)
		says   string
	}{
		"missing":          {"/dev/nvme0n1 disk S6ESNX0T100001\n", nil, nil, "there is no disk with serial S6ESNX0T100002"},
		"two of one":       {twoDisks + "/dev/nvme2n1 disk S6ESNX0T100002\n", nil, nil, "more than one disk has serial S6ESNX0T100002"},
		"of other sizes":   {twoDisks, nil, func(h *host) { h.program("blockdev", "echo 1") }, "has 1 bytes, and not the 3840755982336 that MAAS found"},
		"known":            {twoDisks, map[string]string{"/dev/nvme1n1": foreign}, nil, "disk S6ESNX0T100002 (/dev/nvme1n1) holds something known, and overwrite_known_signatures is not set"},
		"known to wipefs":  {twoDisks, nil, func(h *host) { h.program("wipefs", "echo 0x0,x,x,LVM2_member") }, "holds something known"},
		"known to blkid":   {twoDisks, nil, func(h *host) { h.program("blkid", "echo TYPE=zfs_member") }, "holds something known"},
		"ambiguous":        {twoDisks, nil, func(h *host) { h.program("blkid", "exit 8") }, "holds something known"},
		"mounted":          {twoDisks, nil, func(h *host) { h.write("mounts/data", "/dev/nvme1n1\n", 0o644) }, held},
		"in a RAID":        {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("TYPE", "echo raid1")) }, "is mounted or held"},
		"held":             {twoDisks, nil, func(h *host) { h.write("sys/class/block/nvme1n1/holders/dm-0", "", 0o644) }, held},
		"held by a part":   {twoDisks, nil, func(h *host) { h.write("sys/class/block/nvme1n1/nvme1n1p1/holders/md0", "", 0o644) }, held},
		"refused":          {twoDisks, nil, func(h *host) { h.program("perl", `case "$4" in *nvme1n1) exit 16;; esac`) }, held},
		"not to be opened": {twoDisks, nil, func(h *host) { _ = os.Remove(filepath.Join(h.root, "dev/nvme1n1")) }, held},
		"mounts unknown":   {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("MOUNTPOINT", "exit 32")) }, "is mounted or held"},
		"kinds unknown":    {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("TYPE", "exit 32")) }, "is mounted or held"},
	} {
		for _, overwrite := range []bool{false, true} {
			if overwrite && strings.Contains(c.says, "known") {
				continue
			}
			h := newHost(t)
			h.rack(c.disks, c.holds)
			if overwrite {
				h.write("etc/hostler-bootstrap/disks-overwrite", "yes\n", 0o644)
			}
			if c.change != nil {
				c.change(h)
			}
			record, out := h.layer("disks")
			if !strings.HasPrefix(record, "failed\n") || !strings.Contains(record, c.says) {
				t.Errorf("%s: %q: %s", name, record, out)
			}
			if calls := h.read("calls"); touched.MatchString(calls) {
				t.Errorf("%s: a disk was touched:\n%s", name, calls)
			}
		}
	}
}

func lsblkWith(column, answer string) string {
	return "case \"$*\" in *SERIAL*) cat <<'END'\n" + twoDisks + "END\n;; *" + column + "*) " + answer + ";; *TYPE*) echo disk;; esac"
}

// made returns the disks on which file systems were made, each with its share.
func (h *host) made() []string {
	var made []string
	for line := range strings.Lines(h.read("calls")) {
		if words := strings.Fields(line); words[0] == "mkfs.ext4" {
			made = append(made, words[6]+" "+words[len(words)-1])
		}
	}
	return made
}

func TestDisksAreMadeOnceAndOverwrittenOnlyWhenTold(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		h := newHost(t)
		holds := map[string]string{}
		if overwrite {
			holds["/dev/nvme1n1"] = foreign
			h.write("etc/hostler-bootstrap/disks-overwrite", "yes\n", 0o644)
		}
		h.rack(twoDisks, holds)
		h.write("etc/fstab", "", 0o644)
		for range 2 {
			if record, out := h.layer("disks"); record != "done\n\n" {
				t.Fatalf("%q: %s", record, out)
			}
		}
		if made := h.made(); !slices.Equal(made, []string{"share1 /dev/nvme0n1", "share2 /dev/nvme1n1"}) {
			t.Errorf("file systems were made on %q", made)
		}
		if fstab := h.read("etc/fstab"); strings.Count(fstab, "\n") != 2 || !strings.Contains(fstab, h.root+"/share2 ext4 defaults,nofail 0 2\n") {
			t.Errorf("fstab is\n%s", fstab)
		}
		calls := h.read("calls")
		if strings.Contains(calls, "/dev/sda") {
			t.Error("a disk that nobody named was looked at")
		}
		if regexp.MustCompile(`(?m)^wipefs .*(-f|--force)`).MatchString(calls) {
			t.Errorf("a wipe does not ask the kernel for the disk alone:\n%s", calls)
		}
	}
}

// A check of all disks may be outdated when a disk's turn comes.
func TestADiskIsLookedAtAgainBeforeItIsTouched(t *testing.T) {
	for name, change := range map[string]struct{ does, says string }{
		"held since":         {"mkdir -p sys/class/block/nvme1n1/holders/dm-0", "is mounted or held"},
		"mounted since":      {"echo /dev/nvme1n1 >mounts/data", "is mounted or held"},
		"of another size":    {"echo 'echo 1' >bin/blockdev", "has 1 bytes"},
		"with a file system": {"echo " + foreign + " >on/nvme1n1", "holds something known"},
	} {
		h := newHost(t)
		h.rack(twoDisks, nil)
		h.program("mkfs.ext4", "echo \"$4\" >'"+h.root+"/on/nvme0n1'; cd '"+h.root+"'; "+change.does)
		if record, out := h.layer("disks"); !strings.HasPrefix(record, "failed\ndisk S6ESNX0T100002 (/dev/nvme1n1) ") || !strings.Contains(record, change.says) {
			t.Errorf("%s: %q: %s", name, record, out)
		}
		if made := h.made(); !slices.Equal(made, []string{"share1 /dev/nvme0n1"}) || strings.Contains(h.read("calls"), "--all /dev/nvme1n1") {
			t.Errorf("%s: it was touched:\n%s", name, h.read("calls"))
		}
		if h.read("var/lib/hostler-bootstrap/disks/S6ESNX0T100002") != "" {
			t.Errorf("%s: it is marked as begun", name)
		}
	}
}

// Wherever the layer is cut short, it continues. A complete file system, which may hold files by
// now, is not made again.
func TestADiskThatWasBegunIsGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		victim, does string
		again        []string
	}{
		"before the wipe":    {"wipefs", `case "$*" in *--all*nvme1n1) kill -9 $PPID;; esac`, []string{"share2 /dev/nvme1n1"}},
		"before the mkfs":    {"mkfs.ext4", `case "$*" in *nvme1n1) kill -9 $PPID; exit;; esac; `, []string{"share2 /dev/nvme1n1"}},
		"after the mkfs":     {"mkfs.ext4", `case "$*" in *nvme1n1) echo "$4" >on/nvme1n1; kill -9 $PPID; exit;; esac; `, []string{"share2 /dev/nvme1n1"}},
		"after fstab":        {"mount", `case "$*" in *share2) kill -9 $PPID; exit;; esac; `, nil},
		"after the mount":    {"mount", `case "$*" in *share2) echo "$3" >mounts/share2; kill -9 $PPID; exit;; esac; `, nil},
		"before it was said": {"sync", `[ "$*" != '' ] || [ ! -s mounts/share2 ] || kill -9 $PPID`, nil},
	} {
		for _, reboot := range []bool{false, true} {
			h := newHost(t)
			h.rack(twoDisks, nil)
			whole := h.read("bin/" + c.victim)
			h.program(c.victim, "cd '"+h.root+"'; "+c.does+"\n"+whole)
			if record, out := h.layer("disks"); record != "failed\nit ended by exit-code -1\n" {
				t.Fatalf("%s: it was not killed: %q: %s", name, record, out)
			}
			h.write("bin/"+c.victim, whole, 0o755)
			if reboot { // mounts the entries of fstab
				for _, share := range []string{"1", "2"} {
					mounts := ""
					if strings.Contains(h.read("etc/fstab"), "/share"+share+" ") {
						mounts = map[string]string{"1": "/dev/nvme0n1\n", "2": "/dev/nvme1n1\n"}[share]
					}
					h.write("mounts/share"+share, mounts, 0o644)
				}
			}
			h.write("calls", "", 0o644)
			if record, out := h.layer("disks"); record != "done\n\n" {
				t.Fatalf("%s, reboot %v: %q: %s", name, reboot, record, out)
			}
			if made := h.made(); !slices.Equal(made, c.again) {
				t.Errorf("%s, reboot %v: it called\n%s", name, reboot, h.read("calls"))
			}
			if h.read("mounts/share2") != "/dev/nvme1n1\n" || strings.Count(h.read("etc/fstab"), "\n") != 2 {
				t.Errorf("%s, reboot %v: mounted are %q, fstab is\n%s", name, reboot, h.read("mounts/share2"), h.read("etc/fstab"))
			}
		}
	}
}

// A mark records only our start on a disk, and nothing of later changes of the disk.
func TestWhatIsNotOursOnADiskThatWasBegunIsSpared(t *testing.T) {
	for name, c := range map[string]struct{ fstab, mounts, says string }{
		"begun":                  {"", "", "holds something known"},
		"whole":                  {"UUID=" + strings.Repeat("b", 36) + " /share2 ext4 defaults,nofail 0 2\n", "", "does not hold the file system that was made on it"},
		"mounted in its place":   {"", "mounts/share2", "does not hold the file system that was made on it"},
		"mounted somewhere else": {"", "mounts/data", "is mounted or held"},
	} {
		h := newHost(t)
		h.rack(twoDisks, map[string]string{"/dev/nvme1n1": foreign})
		h.write("var/lib/hostler-bootstrap/disks/S6ESNX0T100002", strings.Repeat("b", 36)+"\n", 0o644)
		h.write("etc/fstab", c.fstab, 0o644)
		if c.mounts != "" {
			h.write(c.mounts, "/dev/nvme1n1\n", 0o644)
		}
		if record, out := h.layer("disks"); !strings.HasPrefix(record, "failed\n") || !strings.Contains(record, c.says) {
			t.Errorf("%s: %q: %s", name, record, out)
		}
		if calls := h.read("calls"); touched.MatchString(calls) {
			t.Errorf("%s: a disk was touched:\n%s", name, calls)
		}
	}
}
