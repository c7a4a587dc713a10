package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/taskcatalog"
)

const goodConfig = `# Hostler agent
broker: https://broker.example:7441
ca_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
token_file: /etc/hostler-agent/enroll.token
allow: mutating
scratch: [/share*, /scratch]
container_roots: {/data/docker: docker.service}
capabilities: {weka: "4.4"}
update_watch: 90s
`

func TestAConfigFileIsRead(t *testing.T) {
	f, err := ParseFile([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	if f.Broker != "https://broker.example:7441" || f.Allow != inbox.AllowMutating || len(f.Scratch) != 2 || f.ContainerRoots["/data/docker"] != "docker.service" || f.StateDir != DefaultStateDir || f.UpdateWatch != 90*time.Second {
		t.Fatalf("%+v", f)
	}
}

func TestWithoutAConfigFileTheDefaultsHold(t *testing.T) {
	f, err := ParseFile(nil)
	if err != nil || f.Allow != inbox.AllowAll || f.Key != "ed25519" || f.StateDir != DefaultStateDir || f.StatusFile != DefaultStatusFile || f.UpdateWatch != 5*time.Minute {
		t.Fatalf("%+v %v", f, err)
	}
	if _, err := LoadFile(filepath.Join(t.TempDir(), "absent.yaml")); taskcatalog.CodeOf(err, "") != CodeBadConfig {
		t.Fatalf("a config that was named and is not there: %v", err)
	}
}

func TestAConfigFileThatMakesNoSenseIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"unknown key":       "alow: probe",
		"key twice":         "allow: probe\nallow: all",
		"allow of no kind":  "allow: everything",
		"allow is a list":   "allow: [all]",
		"key of no kind":    "key: rsa",
		"relative state":    "state_dir: var/lib",
		"state with dots":   "state_dir: /var/../etc",
		"scratch is root":   "scratch: [/]",
		"relative scratch":  "scratch: [share]",
		"broken pattern":    "scratch: ['/share[']",
		"scratch is none":   "scratch: ['', /scratch]",
		"scratch is all":    "scratch: ['/*']",
		"scratch is any":    "scratch: ['/[a-z]*']",
		"root that is none": "container_roots: {'': docker.service}",
		"token in the file": "token: hsn_x",
		"watch of no time":  "update_watch: soon",
		"watch for days":    "update_watch: 48h",
		"watch backwards":   "update_watch: -5s",
		"capability name":   "capabilities: {'We KA': x}",
		"not YAML":          "{{{",
		"a list":            "- broker",
		"too large":         "# " + strings.Repeat("x", maxConfig),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseFile([]byte(text)); err == nil {
				t.Fatal("taken")
			}
		})
	}
}

func TestAConfigFileThatOthersMayWriteIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, []byte(goodConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFile(name); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o666, 0o664} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadFile(name); taskcatalog.CodeOf(err, "") != CodeBadConfig || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadFile(name); taskcatalog.CodeOf(err, "") != CodeBadConfig {
			t.Errorf("a config of another user's: %v", err)
		}
	}
	if _, err := LoadFile(t.TempDir()); err == nil {
		t.Error("a directory was taken for a config file")
	}
}

// For any input, an accepted file passes the check.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add([]byte("allow: &a all\nkey: *a\n"))
	f.Add([]byte("scratch: [\"/\\x2f\", /..]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := ParseFile(raw)
		if err != nil {
			return
		}
		if !file.Allow.Valid() || !filepath.IsAbs(file.StateDir) || !filepath.IsAbs(file.StatusFile) {
			t.Fatalf("%+v", file)
		}
		for _, p := range file.Scratch {
			if !filepath.IsAbs(p) || p == "/" || filepath.Clean(p) != p {
				t.Fatalf("scratch %q", p)
			}
		}
	})
}
