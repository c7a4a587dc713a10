package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	goodCA    = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	goodToken = "hsn_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// boot is a machine with files.
func boot(t *testing.T, files map[string]string) *machine.Machine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func fwCfg(broker string) map[string]string {
	return map[string]string{
		fwCfgDir + "broker/raw": broker, fwCfgDir + "ca_sha256/raw": goodCA, fwCfgDir + "token/raw": goodToken + "\n",
	}
}

func TestEachSourceIsRead(t *testing.T) {
	cmdline := "root=/dev/vda1 hostler.broker=https://cmdline:7441 hostler.ca_sha256=" + goodCA + " hostler.token=" + goodToken
	seed := "#cloud-config\nusers: [default]\nhostler:\n  broker: https://seed:7441\n  ca_sha256: " + goodCA + "\n  token: " + goodToken + "\n"
	config := Bootstrap{Broker: "https://config:7441", CASHA256: strings.ToUpper(goodCA), Token: goodToken}
	for _, test := range []struct {
		name   string
		config Bootstrap
		files  map[string]string
		broker string
	}{
		{"config file", config, nil, "https://config:7441"},
		{"cloud-init seed", Bootstrap{}, map[string]string{"/var/lib/cloud/seed/nocloud/user-data": seed}, "https://seed:7441"},
		{"cloud-init instance", Bootstrap{}, map[string]string{"/var/lib/cloud/instance/user-data.txt": seed}, "https://seed:7441"},
		{"kernel command line", Bootstrap{}, map[string]string{"/proc/cmdline": cmdline}, "https://cmdline:7441"},
		{"fw_cfg", Bootstrap{}, fwCfg("https://fwcfg:7441\x00"), "https://fwcfg:7441"},
		{"the earlier one wins", Bootstrap{}, map[string]string{"/proc/cmdline": cmdline, "/var/lib/cloud/seed/nocloud/user-data": seed}, "https://seed:7441"},
		{"config before all", config, map[string]string{"/proc/cmdline": cmdline}, "https://config:7441"},
		{"user-data that is none of ours", Bootstrap{}, map[string]string{"/var/lib/cloud/seed/nocloud/user-data": "#!/bin/sh\nhostler: no\n", "/proc/cmdline": cmdline}, "https://cmdline:7441"},
		{"cloud-config without our key", Bootstrap{}, map[string]string{"/var/lib/cloud/seed/nocloud/user-data": "#cloud-config\nusers: []\n", "/proc/cmdline": cmdline}, "https://cmdline:7441"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := boot(t, test.files)
			b, err := Find([]Source{Provided("the config file", test.config, ""), Seed(m), Cmdline(m), FwCfg(m)})
			if err != nil {
				t.Fatal(err)
			}
			if b.Broker != test.broker || b.CASHA256 != goodCA || b.Token != goodToken || b.Source == "" {
				t.Fatalf("found %s %s from %s, want broker %s", b.Broker, b.CASHA256, b.Source, test.broker)
			}
		})
	}
}

func TestTheSeedIsFoundThroughCloudInitsLink(t *testing.T) {
	m := boot(t, map[string]string{"/var/lib/cloud/instances/i-1/user-data.txt": "#cloud-config\nhostler: {broker: 'https://b', ca_sha256: " + goodCA + "}\n"})
	if err := os.Symlink("/var/lib/cloud/instances/i-1", filepath.Join(m.Dir(), "var/lib/cloud/instance")); err != nil {
		t.Fatal(err)
	}
	if b, err := Find([]Source{Seed(m)}); err != nil || b.Broker != "https://b" {
		t.Fatal(b, err)
	}
}

func TestASourceThatMakesNoSenseStopsTheSearch(t *testing.T) {
	for name, text := range map[string]string{
		"plain http":          "hostler.broker=http://b hostler.ca_sha256=" + goodCA,
		"no host":             "hostler.broker=https:// hostler.ca_sha256=" + goodCA,
		"a password":          "hostler.broker=https://u:p@b hostler.ca_sha256=" + goodCA,
		"a path":              "hostler.broker=https://b/x hostler.ca_sha256=" + goodCA,
		"no pin":              "hostler.broker=https://b",
		"half a pin":          "hostler.broker=https://b hostler.ca_sha256=abcd",
		"a token of another":  "hostler.broker=https://b hostler.ca_sha256=" + goodCA + " hostler.token=secret-of-someone",
		"two brokers":         "hostler.broker=https://a hostler.broker=https://b hostler.ca_sha256=" + goodCA,
		"an escape for a tty": "hostler.broker=https://b\x1b[2J hostler.ca_sha256=" + goodCA,
	} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, map[string]string{"/proc/cmdline": text})
			behind := boot(t, fwCfg("https://fwcfg:7441"))
			_, err := Find([]Source{Cmdline(m), FwCfg(behind)})
			if taskcatalog.CodeOf(err, "") != CodeBadIdentity {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), "secret-of-someone") || strings.Contains(err.Error(), "\x1b") {
				t.Fatalf("the error repeats what it must not: %q", err)
			}
		})
	}
}

func TestWithoutASourceTheNodeSaysWhatToDo(t *testing.T) {
	m := boot(t, nil)
	_, err := Find([]Source{Provided("the config file", Bootstrap{}, "/nowhere"), Seed(m), Cmdline(m), FwCfg(m)})
	if taskcatalog.CodeOf(err, "") != CodeNoIdentitySource || !strings.Contains(err.Error(), "hostler-agent enroll") {
		t.Fatal(err)
	}
}

// A token file may be removed once the node is a member.
func TestATokenFileThatIsGoneIsNoToken(t *testing.T) {
	b, err := Find([]Source{Provided("the config file", Bootstrap{Broker: "https://b", CASHA256: goodCA}, "/nowhere/token")})
	if err != nil || b.Token != "" {
		t.Fatal(b, err)
	}
}

func FuzzCmdline(f *testing.F) {
	f.Add("hostler.broker=https://b hostler.ca_sha256=" + goodCA + " hostler.token=" + goodToken)
	f.Add("hostler.broker=\" hostler.broker= hostler.token==")
	f.Fuzz(func(t *testing.T, line string) {
		plausible(t, func() (*Bootstrap, error) { return parseCmdline(line) })
	})
}

func FuzzSeed(f *testing.F) {
	f.Add([]byte("#cloud-config\nhostler: {broker: 'https://b', ca_sha256: " + goodCA + "}\n"))
	f.Add([]byte("#cloud-config\nhostler: &a [*a]\n"))
	f.Add([]byte("#cloud-config\na: &a [x,x]\nb: &b [*a,*a]\nhostler: *b\n"))
	f.Fuzz(func(t *testing.T, raw []byte) { plausible(t, func() (*Bootstrap, error) { return parseSeed(raw) }) })
}

func FuzzFwCfg(f *testing.F) {
	f.Add([]byte("https://b\x00"), []byte(goodCA), []byte(goodToken))
	f.Fuzz(func(t *testing.T, broker, ca, token []byte) {
		plausible(t, func() (*Bootstrap, error) {
			return (&Bootstrap{Broker: fwCfgText(broker), CASHA256: fwCfgText(ca), Token: "x"}), nil
		})
	})
}

// plausible checks the promise of every source: an error, nothing, or a bootstrap in normal form.
func plausible(t *testing.T, read func() (*Bootstrap, error)) {
	b, err := Find([]Source{{Name: "fuzz", Read: read}})
	if err != nil {
		return
	}
	if !strings.HasPrefix(b.Broker, "https://") || strings.ContainsAny(b.Broker, " \n\x00") || len(b.CASHA256) != 64 {
		t.Fatalf("taken: %q %q", b.Broker, b.CASHA256)
	}
}
