package cloudinit

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
)

var update = flag.Bool("update", false, "write the golden files")

// rootPEM is a root certificate made for these tests; its key was thrown away.
func rootPEM(t *testing.T) (text, fingerprint string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCerts(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), pki.Fingerprint(certs[0])
}

func input(t *testing.T) Input {
	root, fingerprint := rootPEM(t)
	return Input{
		BrokerURL: "https://broker.example:7441", CASHA256: fingerprint, RootPEM: root,
		Token:   "hsn_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		Package: &Package{SHA256: strings.Repeat("0123456789abcdef", 4), Mirrors: []string{"http://mirror.example/hostler-agent.deb?x=1&y=%20"}},
	}
}

// whole is an input with every layer.
func whole(t *testing.T) Input {
	t.Helper()
	in := input(t)
	in.MAASSystemID = "abc123"
	in.SiteBundle = "https://depot.example/first-boot.sh@sha256:" + strings.Repeat("fedcba9876543210", 4)
	in.HardwareSync = true
	in.Disks = []Disk{{"S6ESNX0T100001", 3840755982336}, {"S6ESNX0T100002", 3840755982336}}
	in.OverwriteSignatures = true
	in.RoCE = []RoCE{
		{"enp28s0np0", netip.MustParsePrefix("172.30.9.61/31")},
		{"enp29s0np0", netip.MustParsePrefix("172.29.1.218/31")},
		{"enp62s0np0", netip.MustParsePrefix("172.28.7.9/24")},
	}
	hash, err := HashPassword("correct horse", "saltsalt")
	if err != nil {
		t.Fatal(err)
	}
	in.DeployUser = &DeployUser{Name: "hpcadmin", SSHKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB+4zbUZmuNjTZSh8HGPZk3RvLkFPFGpYy5SnVBb1XyL hostler@dc1", PasswordHash: hash}
	return in
}

func TestTheRenderedTextIsTheGolden(t *testing.T) {
	in := input(t)
	bare := input(t)
	bare.Package = nil
	bare.MAASSystemID = "abc123"
	for name, render := range map[string]func() (string, error){
		"user-data":           func() (string, error) { return Render(in) },
		"user-data-installed": func() (string, error) { return Render(bare) },
		"user-data-whole":     func() (string, error) { return Render(whole(t)) },
		"command":             func() (string, error) { return Command(in) },
		"command-installed":   func() (string, error) { return Command(bare) },
	} {
		got, err := render()
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from its golden (go test -update, and read the diff):\n%s", name, got)
		}
		if strings.HasPrefix(name, "command") && strings.Contains(got, "\n") {
			t.Errorf("%s is more than one line", name)
		}
	}
}

type file struct{ Mode, Content string }

// parts reads user-data as any reader of MIME does.
func parts(t *testing.T, userData string) map[string]string {
	t.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(userData))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		all[p.FileName()] = string(text) + "\n" // the last end of line is the boundary's
	}
}

// rendered returns the files of the data part, by path.
func rendered(t *testing.T, in Input) map[string]file {
	t.Helper()
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	files, path := map[string]file{}, ""
	for line := range strings.Lines(parts(t, text)[dataPart]) {
		if rest, ok := strings.CutPrefix(line, "|"); ok {
			f := files[path]
			f.Content += rest
			files[path] = f
			continue
		}
		if words := strings.Fields(line); words[0] == "file" {
			path = words[2]
			files[path] = file{Mode: words[1]}
		}
	}
	return files
}

// MAAS's vendor-data has write_files and runcmd, and user-data with either replaces them.
func TestTheCloudConfigPartNamesUsersAndNothingElse(t *testing.T) {
	text, err := Render(whole(t))
	if err != nil {
		t.Fatal(err)
	}
	all := parts(t, text)
	var config map[string]any
	if err := yaml.Unmarshal([]byte(all[configPart]), &config); err != nil {
		t.Fatal(err)
	}
	if len(config) != 1 || config["users"] == nil || len(all) != 3 {
		t.Errorf("the cloud-config part of %d parts has %v", len(all), slices.Sorted(maps.Keys(config)))
	}
}

func TestTheScriptPartHoldsNoValue(t *testing.T) {
	var before string
	for _, in := range []Input{input(t), whole(t)} {
		text, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		got := parts(t, text)[scriptPart]
		if before != "" && got != before {
			t.Error("two inputs have two scripts")
		}
		before = got
	}
	if before != "#cloud-boothook\n"+script("lay-out") {
		t.Errorf("the script part is not the script:\n%s", before)
	}
}

func TestWhatIsRenderedBareHasNoSecret(t *testing.T) {
	in, other := whole(t), whole(t)
	other.Token = "hsn_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
	hash, err := HashPassword("another", "salt....")
	if err != nil {
		t.Fatal(err)
	}
	other.DeployUser.PasswordHash = hash
	first, err1 := Render(in.Redacted())
	second, err2 := Render(other.Redacted())
	if err1 != nil || err2 != nil || first != second {
		t.Errorf("with other secrets it is another text: %v %v", err1, err2)
	}
	if in.DeployUser.PasswordHash == in.Redacted().DeployUser.PasswordHash {
		t.Error("the password's hash is not taken out")
	}
}

func TestEachNodeHasASaltOfItsOwnAndNobodyThePassword(t *testing.T) {
	one, err1 := HashPassword("correct horse", "saltsalt")
	two, err2 := HashPassword("correct horse", "saltsal.")
	if err1 != nil || err2 != nil || one == two || !hashForm.MatchString(one) || !hashForm.MatchString(two) {
		t.Errorf("%q %q %v %v", one, two, err1, err2)
	}
	if _, err := HashPassword("x", "short"); err == nil {
		t.Error("a short salt is taken")
	}
	text, err := Render(whole(t))
	if err != nil || strings.Contains(text, "correct horse") || strings.Count(text, one) != 1 {
		t.Errorf("%v: the hash is there %d times", err, strings.Count(text, one))
	}
}

func TestTheTokenIsInOneFileForRootAlone(t *testing.T) {
	in := input(t)
	for path, f := range rendered(t, in) {
		if has := strings.Contains(f.Content, in.Token.Reveal()); has != (path == agentDir+"enroll.token") {
			t.Errorf("%s holds the token: %v", path, has)
		}
		if path == agentDir+"enroll.token" && f.Mode != "0600" {
			t.Errorf("the token file has permissions %s", f.Mode)
		}
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on this machine")
	}
	dir := t.TempDir()
	var names []string
	for path, f := range rendered(t, whole(t)) {
		name, ok := strings.CutPrefix(path, unitDir)
		if !ok || strings.Contains(name, "/") {
			continue
		}
		// The agent is not installed where tests run.
		content := strings.ReplaceAll(f.Content, "/usr/bin/hostler-agent", "/bin/true")
		name = strings.Replace(name, "@.", "@0.", 1)
		names = append(names, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != 4 {
		t.Fatalf("%d units are rendered, want 4", len(names))
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no", "--recursive-errors=no"}, names...)...).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) != 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The main unit stays wanted at every boot, and its wanted units start whether its own conditions
// hold or not: each unit must detect by itself that the first boot is over.
func TestAfterTheFirstBootNoUnitOfTheAgentsRunsAgain(t *testing.T) {
	ran := 0
	for path, f := range rendered(t, whole(t)) {
		if name, ok := strings.CutPrefix(path, unitDir+"hostler-bootstrap"); !ok || strings.Contains(name, "/") {
			continue
		}
		ran++
		unit, _, _ := strings.Cut(f.Content, "[Service]")
		if !strings.Contains(unit, "\nConditionPathExists=!/var/lib/hostler-bootstrap/done\n") {
			t.Errorf("%s runs at each boot", path)
		}
	}
	if ran != 3 {
		t.Errorf("%d units were looked at, want 3", ran)
	}
}

// A cut between any two commands leaves a boot that goes on, or a boot that has ended. After done,
// no work is left that only this unit does. done is on the disk before the token is removed,
// because without the token the enrolment could not be retried.
func TestTheUnitNotesItsEndAfterAllThatMustBeDone(t *testing.T) {
	_, after, ok := strings.Cut(rendered(t, whole(t))[unitDir+mainUnit].Content, "systemctl enable --now hostler-agent.service\n")
	if !ok {
		t.Fatal("it does not start the agent")
	}
	want := `ExecStart=/bin/rm --force agent.deb agent.deb.unverified
ExecStart=/usr/bin/touch done
ExecStart=/bin/sync done .
ExecStart=/usr/bin/shred --force --iterations=1 --remove /etc/hostler-agent/enroll.token
`
	if !strings.HasPrefix(after, want) {
		t.Errorf("it ends with\n%s", after)
	}
}

func TestWhatCouldBreakOutIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"plain http":            func(in *Input) { in.BrokerURL = "http://broker.example" },
		"quote in the broker":   func(in *Input) { in.BrokerURL = `https://b"; touch /x; "` },
		"newline in the broker": func(in *Input) { in.BrokerURL = "https://b\nExecStart=/bin/x" },
		"specifier":             func(in *Input) { in.BrokerURL = "https://%n" },
		"no token":              func(in *Input) { in.Token = "" },
		"two-line token":        func(in *Input) { in.Token += "\nx" },
		"other root":            func(in *Input) { in.CASHA256 = strings.Repeat("0", 64) },
		"no root":               func(in *Input) { in.RootPEM = "" },
		"system id":             func(in *Input) { in.MAASSystemID = "a'b" },
		"digest":                func(in *Input) { in.Package.SHA256 = "x" },
		"mirror with newline":   func(in *Input) { in.Package.Mirrors = []string{"https://m/\nTLS=-k"} },
		"mirror with quote":     func(in *Input) { in.Package.Mirrors = []string{"https://m/'$(reboot)'"} },
		"mirror as option":      func(in *Input) { in.Package.Mirrors = []string{"--config=/etc/x"} },
		"mirror from a file":    func(in *Input) { in.Package.Mirrors = []string{"file:///etc/shadow"} },
		"mirror with password":  func(in *Input) { in.Package.Mirrors = []string{"https://u:p@m/x"} },
		"bundle with a space":   func(in *Input) { in.SiteBundle = "https://d/a b@sha256:" + strings.Repeat("0", 64) },
		"bundle with a quote":   func(in *Input) { in.SiteBundle = "https://d/$(reboot)@sha256:" + strings.Repeat("0", 64) },
		"bundle of no digest":   func(in *Input) { in.SiteBundle = "https://d/x" },
		"bundle of half a one":  func(in *Input) { in.SiteBundle = "https://d/x@sha256:00" },
		"serial with a space":   func(in *Input) { in.Disks[0].Serial = "a b" },
		"serial with a line":    func(in *Input) { in.Disks[0].Serial = "a\nb" },
		"serial as an option":   func(in *Input) { in.Disks[0].Serial = "--all" },
		"no serial":             func(in *Input) { in.Disks[0].Serial = "" },
		"one serial twice":      func(in *Input) { in.Disks[1] = in.Disks[0] },
		"disk of no size":       func(in *Input) { in.Disks[1].Size = 0 },
		"interface with a line": func(in *Input) { in.RoCE[0].Interface = "a\nb" },
		"interface as option":   func(in *Input) { in.RoCE[0].Interface = "-a" },
		"interface twice":       func(in *Input) { in.RoCE[1].Interface = in.RoCE[0].Interface },
		"interface, no address": func(in *Input) { in.RoCE[0].Address = netip.Prefix{} },
		"interface of IPv6":     func(in *Input) { in.RoCE[0].Address = netip.MustParsePrefix("fd00::1/64") },
		"root as deploy user":   func(in *Input) { in.DeployUser.Name = "root" },
		"deploy user's name":    func(in *Input) { in.DeployUser.Name = "a b" },
		"key of two lines":      func(in *Input) { in.DeployUser.SSHKey += "\nssh-ed25519 AAAA" },
		"key with a command":    func(in *Input) { in.DeployUser.SSHKey = `command="x" ` + in.DeployUser.SSHKey },
		"plain password":        func(in *Input) { in.DeployUser.PasswordHash = "correct horse" },
		"too many mirrors":      func(in *Input) { in.Package.Mirrors = make([]string, maxMirrors+1) },
	} {
		in := whole(t)
		change(&in)
		for _, render := range []func(Input) (string, error){Render, Command} {
			_, err := render(in)
			var e *broker.Error
			if !errors.As(err, &e) || e.Code != "bootstrap_invalid" {
				t.Errorf("%s: got %v, want bootstrap_invalid", name, err)
				continue
			}
			if strings.Contains(err.Error(), "hsn_") {
				t.Errorf("%s: the error holds the token: %v", name, err)
			}
		}
	}
}
