package cloudinit

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
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

func TestTheRenderedTextIsTheGolden(t *testing.T) {
	in := input(t)
	bare := input(t)
	bare.Package = nil
	bare.MAASSystemID = "abc123"
	for name, render := range map[string]func() (string, error){
		"cloud-config":           func() (string, error) { return Render(in) },
		"cloud-config-installed": func() (string, error) { return Render(bare) },
		"command":                func() (string, error) { return Command(in) },
		"command-installed":      func() (string, error) { return Command(bare) },
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

func rendered(t *testing.T, in Input) map[string]file {
	t.Helper()
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var doc cloudConfig
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	for _, f := range doc.WriteFiles {
		files[f.Path] = f
	}
	return files
}

func TestTheTokenIsInOneFileForRootAlone(t *testing.T) {
	in := input(t)
	for path, f := range rendered(t, in) {
		if has := strings.Contains(f.Content, in.Token.Reveal()); has != (path == agentDir+"enroll.token") {
			t.Errorf("%s holds the token: %v", path, has)
		}
		if path == agentDir+"enroll.token" && f.Permissions != "0600" {
			t.Errorf("the token file has permissions %s", f.Permissions)
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
	for path, f := range rendered(t, input(t)) {
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
	if len(names) != 3 {
		t.Fatalf("%d units are rendered, want 3", len(names))
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no", "--recursive-errors=no"}, names...)...).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) != 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
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
		"too many mirrors":      func(in *Input) { in.Package.Mirrors = make([]string, maxMirrors+1) },
	} {
		in := input(t)
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
