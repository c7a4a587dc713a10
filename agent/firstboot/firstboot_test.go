package firstboot

import (
	"crypto/rand"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	full := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func token(t *testing.T) string {
	t.Helper()
	made, err := pki.NewEnrollToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return made.Reveal()
}

const (
	hash    = "$6$rounds=100000$hostler.saltsalt$MTEXn0MqJI.bsszeChd0VBXEh2evFvQy8/pO8Atr5eMQv0UsJ2t6DiKqh1A1JcioreJ3qmNSjd4WjFkJ73BvG1"
	another = "$6$rounds=100000$operator$MTEXn0MqJI.bsszeChd0VBXEh2evFvQy8/pO8Atr5eMQv0UsJ2t6DiKqh1A1JcioreJ3qmNSjd4WjFkJ73BvG1"
)

func TestWhatIsSpentIsErasedWhereverCloudInitKeepsIt(t *testing.T) {
	root, used := t.TempDir(), token(t)
	// A pickle stores the length of its texts.
	places := map[string]string{
		"var/lib/cloud/instances/abc123/user-data.txt":        "|" + used + "\nhashed_passwd: " + hash + "\n",
		"var/lib/cloud/instances/abc123/user-data.txt.i":      "|" + used + "\n" + hash,
		"var/lib/cloud/instances/abc123/cloud-config.txt":     "hashed_passwd: " + hash,
		"var/lib/cloud/instances/abc123/obj.pkl":              "\x80\x04X\x2f\x00\x00\x00" + used + "\x94X" + hash + "\x94.",
		"var/lib/cloud/instances/abc123/scripts/hostler-data": used + used,
		"var/lib/cloud/seed/nocloud/user-data":                used,
		"run/cloud-init/instance-data-sensitive.json":         `{"x":"` + used + `"}`,
		"var/log/cloud-init.log":                              used,
		"etc/shadow-":                                         "hpcadmin:" + hash + ":1:::::\n",
		"etc/hostler-agent/enroll.token":                      used + "\n",
	}
	for name, text := range places {
		write(t, root, name, text)
	}
	n, err := EraseSecrets(root, pki.HashToken(used))
	if err != nil || n != len(places) {
		t.Errorf("erased %d files of %d: %v", n, len(places), err)
	}
	for name, was := range places {
		want := strings.ReplaceAll(strings.ReplaceAll(was, used, strings.Repeat("x", len(used))), hash, strings.Repeat("x", len(hash)))
		if got := read(t, root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if n, err := EraseSecrets(root, pki.HashToken(used)); n != 0 || err != nil {
		t.Errorf("a second time it erases %d: %v", n, err)
	}
}

func TestWhatIsNotOursOrNotSpentIsLeftAlone(t *testing.T) {
	root, used, next := t.TempDir(), token(t), token(t)
	vendor := "reporting: {maas: {consumer_key: abc, token_key: def, token_secret: ghi}}\n"
	places := map[string]string{
		"var/lib/cloud/instances/abc123/user-data.txt":   "|" + next + "\npasswd: " + another + "\n",
		"var/lib/cloud/instances/abc123/vendor-data.txt": vendor,
		"etc/cloud/cloud.cfg.d/90_dpkg_maas.cfg":         vendor + used,
		"etc/shadow":                                     "hpcadmin:" + hash + ":1:::::\n",
		"home/tenant/notes":                              used,
		"etc/hostler-agent/enroll.token":                 next + "\n",
	}
	for name, text := range places {
		write(t, root, name, text)
	}
	if n, err := EraseSecrets(root, pki.HashToken(used)); n != 0 || err != nil {
		t.Errorf("erased %d: %v", n, err)
	}
	for name, was := range places {
		if got := read(t, root, name); got != was {
			t.Errorf("%s was changed to %q", name, got)
		}
	}
}

func TestALinkOutOfCloudInitsFilesIsNotFollowed(t *testing.T) {
	root, outside, used := t.TempDir(), t.TempDir(), token(t)
	write(t, outside, "theirs", used)
	write(t, root, "home/tenant/notes", used)
	dir := filepath.Join(root, "var/lib/cloud")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": outside, "up": "../../../home/tenant", "file": filepath.Join(outside, "theirs"), "near": "../../../home/tenant/notes"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, root, "etc/passwd", "")
	if err := os.Symlink(filepath.Join(outside, "theirs"), filepath.Join(root, "etc/shadow-")); err != nil {
		t.Fatal(err)
	}
	if n, err := EraseSecrets(root, pki.HashToken(used)); n != 0 || err != nil {
		t.Errorf("erased %d: %v", n, err)
	}
	if read(t, outside, "theirs") != used || read(t, root, "home/tenant/notes") != used {
		t.Error("a link was followed")
	}
}

func TestNothingIsErasedWhileCloudInitRuns(t *testing.T) {
	root := t.TempDir()
	if CloudInitRunning(root) {
		t.Error("without cloud-init it is waited for")
	}
	write(t, root, "run/cloud-init/instance-data.json", "{}")
	if !CloudInitRunning(root) {
		t.Error("it has not ended")
	}
	write(t, root, "run/cloud-init/disabled", "")
	if CloudInitRunning(root) {
		t.Error("it is off")
	}
	if err := os.Remove(filepath.Join(root, "run/cloud-init/disabled")); err != nil {
		t.Fatal(err)
	}
	write(t, root, "run/cloud-init/result.json", "{}")
	if CloudInitRunning(root) {
		t.Error("it has ended")
	}
}

func TestLayersTellHowTheyEnded(t *testing.T) {
	root := t.TempDir()
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if said, ended := Layers(m); said != nil || !ended {
		t.Errorf("a machine without a first boot says %v, %v", said, ended)
	}
	write(t, root, "etc/hostler-bootstrap/bundle", "version 1\nlayers site agent hw-sync disks roce ../../x deploy-user\n")
	write(t, root, "var/lib/hostler-bootstrap/layers/site", "failed\nthe site's bundle ended with status 3\x1b[2J\nmore\n")
	write(t, root, "var/lib/hostler-bootstrap/layers/disks", "done\n\n")
	write(t, root, "var/lib/hostler-bootstrap/layers/roce", "perhaps\n")
	said, ended := Layers(m)
	site := said["first_boot.site"]
	if !strings.HasPrefix(site, taskcatalog.FirstBootFailed+"the site's bundle ended with status 3") || strings.ContainsAny(site, "\x1b\n") {
		t.Errorf("the site's layer says %q", site)
	}
	delete(said, "first_boot.site")
	if want := map[string]string{"first_boot.hw-sync": "waiting", "first_boot.disks": "done", "first_boot.roce": "waiting"}; !maps.Equal(said, want) || ended {
		t.Errorf("%v, ended: %v", said, ended)
	}
	write(t, root, "var/lib/hostler-bootstrap/layers/site", strings.Repeat("x", maxRecord+1))
	if said, _ := Layers(m); said["first_boot.site"] != "waiting" {
		t.Errorf("a record without end is taken for %q", said["first_boot.site"])
	}
	for _, name := range []string{"site", "hw-sync", "disks", "roce"} {
		write(t, root, "var/lib/hostler-bootstrap/layers/"+name, "done\n")
	}
	if _, ended := Layers(m); !ended {
		t.Error("all are done, and it has not ended")
	}
}

func TestCloudInitComesUnlessItIsOff(t *testing.T) {
	root := t.TempDir()
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	comes := func(want bool, when string) {
		t.Helper()
		if got, err := CloudInitWillRun(m); err != nil || got != want {
			t.Errorf("%s it comes: %v (%v), want %v", when, got, err, want)
		}
	}
	turnOff := func() {
		t.Helper()
		if err := DisableCloudInit(m); err != nil {
			t.Error(err)
		}
	}
	turnOff()
	comes(false, "on a machine without it")
	write(t, root, "etc/cloud/cloud.cfg", "")
	comes(true, "where nobody turned it off")
	turnOff()
	comes(false, "turned off")
	write(t, root, "proc/cmdline", "root=/dev/sda1 ro\n")
	comes(false, "turned off, with a command line that says nothing of it,")
	write(t, root, "proc/cmdline", "root=/dev/sda1 cloud-init=enabled ro\n")
	comes(true, "turned on by the command line")
	write(t, root, DisableFile[1:], "an operator's")
	turnOff()
	if read(t, root, DisableFile[1:]) != "an operator's" {
		t.Error("an operator's file was replaced")
	}
}
