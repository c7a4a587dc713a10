package sshseed_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// lines are the only command lines, written out.
var lines = []string{
	"/usr/bin/sudo -n /usr/bin/install -d -o root -g root -m 0755 /etc/maas" +
		" && /usr/bin/sudo -n /usr/bin/install -o root -g root -m 0700 -t /etc/maas .hostler-hw-sync/maas-machine-creds.yml" +
		" && /usr/bin/sudo -n /usr/bin/install -o root -g root -m 0644 -t /usr/lib/systemd/system .hostler-hw-sync/maas_hardware_sync.service .hostler-hw-sync/maas_hardware_sync.timer",
	"/usr/bin/sudo -n /usr/bin/systemctl daemon-reload" +
		" && /usr/bin/sudo -n /usr/bin/systemctl enable --now maas_hardware_sync.timer" +
		" && /usr/bin/sudo -n /usr/bin/systemctl start --no-block maas_hardware_sync.service",
}

func files(t *testing.T) hwsync.Files {
	t.Helper()
	f, err := hwsync.Render(taskcatalog.MAASMachineToken{
		Endpoint: "http://10.10.0.1:5248/MAAS/metadata/status/abc123", ConsumerKey: "CK", TokenKey: "TK", TokenSecret: secret,
	}, 15)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// noted returns a host with its host key, as a run has it before the seed.
func noted(t *testing.T, s *sshseed.Seeder, h sshseed.Host) sshseed.Host {
	t.Helper()
	key, _, err := s.HostKey(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	h.HostKey = key
	return h
}

func TestASeedInstallsFilesAndStartsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, s := newSSHD(t)
		found := map[string]string{}
		d.run = func(line string, _ ssh.Channel) int {
			if line == lines[0] {
				for _, name := range []string{hwsync.Credentials, hwsync.Service, hwsync.Timer} {
					text, err := os.ReadFile(filepath.Join(d.home, ".hostler-hw-sync", name))
					if err != nil {
						t.Error(err)
					}
					found[name] = string(text)
				}
			}
			return 0
		}
		h = noted(t, s, h)
		at, err := s.Seed(t.Context(), h, files(t))
		if err != nil || at != h.Addresses[0] {
			t.Fatal(at, err)
		}
		if !slices.Equal(d.lines, lines) {
			t.Errorf("it runs %q", d.lines)
		}
		want := files(t)
		if found[hwsync.Credentials] != string(want.Credentials) || found[hwsync.Service] != string(want.Service) || found[hwsync.Timer] != string(want.Timer) {
			t.Errorf("what was installed is %q", found)
		}
		if left, err := os.ReadDir(d.home); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
		if len(d.asked) > 0 {
			t.Errorf("it asks for %q", d.asked) // an agent, a terminal, a variable
		}
		if d.dialed[0] != "tcp 10.10.0.9:22" {
			t.Errorf("it dials %q", d.dialed)
		}
		d.watch.Wait()
	})
}

// Before its key is recorded a machine learns nothing, not even the name of the login.
func TestAskingForTheHostKeyLogsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, s := newSSHD(t)
		key, at, err := s.HostKey(t.Context(), h)
		if err != nil || key != strings.TrimSpace(string(ssh.MarshalAuthorizedKey(d.host.PublicKey()))) || at != h.Addresses[0] {
			t.Fatalf("%q at %v, %v", key, at, err)
		}
		d.watch.Wait()
		if d.loggedIn > 0 || len(d.methods) > 0 {
			t.Errorf("%d are in, by %q", d.loggedIn, d.methods)
		}
		if sshseed.Fingerprint(key) != ssh.FingerprintSHA256(d.host.PublicKey()) {
			t.Error(sshseed.Fingerprint(key))
		}
	})
}

func TestAnotherHostKeyGetsNothing(t *testing.T) {
	for name, other := range map[string]func(*testing.T) ssh.Signer{"of the same kind": newKey, "of another kind": newECDSA} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, h, s := newSSHD(t)
				h = noted(t, s, h)
				d.host = other(t)
				_, err := s.Seed(t.Context(), h, files(t))
				d.watch.Wait()
				if code(err) != sshseed.HostKeyChanged || d.loggedIn > 0 || len(d.methods) > 0 || len(d.lines) > 0 {
					t.Errorf("%v; %d are in, by %q", err, d.loggedIn, d.methods)
				}
			})
		})
	}
}

func TestNoSeedWithoutANotedHostKey(t *testing.T) {
	d, h, s := newSSHD(t)
	for _, key := range []string{"", "ssh-ed25519", "ssh-ed25519 AAAA", "-----BEGIN", string(ssh.MarshalAuthorizedKey(d.host.PublicKey())) + string(ssh.MarshalAuthorizedKey(d.host.PublicKey()))} {
		h.HostKey = key
		if _, err := s.Seed(t.Context(), h, files(t)); code(err) != sshseed.HostKeyChanged || len(d.dialed) > 0 {
			t.Errorf("%q: %v, dialed %q", key, err, d.dialed)
		}
	}
}

// Whatever a machine does, the broker gets a matching error in time, sends no password and keeps no
// connection.
func TestAMachineThatMisbehaves(t *testing.T) {
	flood := func(_ string, c ssh.Channel) int {
		for {
			if _, err := c.Write([]byte(strings.Repeat("x", 32<<10))); err != nil {
				return 0
			}
		}
	}
	for name, row := range map[string]struct {
		with  func(*sshd)
		code  string
		says  string
		lines int // that had run by then
		most  time.Duration
	}{
		"takes only passwords":     {func(d *sshd) { d.password = true }, sshseed.Refused, "deploy user", 0, 0},
		"does not know the key":    {func(d *sshd) { d.user = nil }, sshseed.Refused, "deploy user", 0, 0},
		"says nothing":             {func(d *sshd) { d.silent = "shake" }, sshseed.Unreachable, "in time", 0, 20 * time.Second},
		"hangs up":                 {func(d *sshd) { d.hangUp = "shake" }, sshseed.Unreachable, "closes the connection", 0, 0},
		"has no answer to a file":  {func(d *sshd) { d.silent = "sftp" }, sshseed.Unreachable, "deadline", 0, 30 * time.Second},
		"hangs up on a file":       {func(d *sshd) { d.hangUp = "sftp" }, sshseed.Unreachable, "", 0, 0},
		"never ends a command":     {func(d *sshd) { d.silent = "exec" }, sshseed.Unreachable, "deadline", 1, 60 * time.Second},
		"hangs up on a command":    {func(d *sshd) { d.hangUp = "exec" }, sshseed.Unreachable, "", 1, 0},
		"is another":               {func(d *sshd) { d.says("xyz789\n") }, sshseed.OtherMachine, `its system id is "xyz789" instead of abc123`, 0, 0},
		"is none":                  {func(d *sshd) { d.says("") }, sshseed.OtherMachine, `its system id is "" instead of abc123`, 0, 0},
		"does not know which":      {func(d *sshd) { _ = os.Remove(d.id) }, sshseed.OtherMachine, "does not report its identity", 0, 0},
		"has a very long name":     {func(d *sshd) { d.says("abc123" + strings.Repeat("x", 1<<20)) }, sshseed.OtherMachine, "", 0, 0},
		"tells secrets back":       {func(d *sshd) { d.run = says(1, "no "+secret+" here") }, sshseed.CommandFailed, "status 1: no […] here", 1, 0},
		"floods the output":        {func(d *sshd) { d.run = flood }, sshseed.CommandFailed, "output is too long", 1, 0},
		"has no sudo for the user": {func(d *sshd) { d.run = says(1, "sudo: a password is required") }, sshseed.CommandFailed, "status 1: sudo: a password is required", 1, 0},
		"says what is no text":     {func(d *sshd) { d.run = says(7, "\x1b]0;you\x07\xff\n") }, sshseed.CommandFailed, "status 7", 1, 0},
		"starts no timer":          {func(d *sshd) { d.run = func(l string, _ ssh.Channel) int { return map[string]int{lines[1]: 5}[l] } }, sshseed.CommandFailed, "status 5", 2, 0},
		"knows old ciphers only":   {func(d *sshd) { d.algos = func(c *ssh.Config) { c.Ciphers = []string{ssh.InsecureCipherAES128CBC} } }, sshseed.Refused, "no allowed algorithm", 0, 0},
		"knows old exchanges only": {func(d *sshd) {
			d.algos = func(c *ssh.Config) { c.KeyExchanges = []string{ssh.InsecureKeyExchangeDH14SHA1} }
		}, sshseed.Refused, "no allowed algorithm", 0, 0},
		"is none of these":            {func(*sshd) {}, "", "", 2, 0},
		"opens channels by itself":    {func(d *sshd) { d.beside = openBack(d) }, "", "", 2, 0},
		"has a file where we put one": {func(d *sshd) { plant(d, "file") }, sshseed.UploadFailed, "another file is in its place", 0, 0},
		"leads our folder elsewhere":  {func(d *sshd) { plant(d, "link") }, sshseed.UploadFailed, "another file is in its place", 0, 0},
		"has a folder with more":      {func(d *sshd) { plant(d, "more") }, sshseed.UploadFailed, "another file is in its place", 0, 0},
		"has what an upload left":     {func(d *sshd) { plant(d, "left") }, "", "", 2, 0},
		"has links in our folder":     {func(d *sshd) { plant(d, "links") }, "", "", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, h, s := newSSHD(t)
				h = noted(t, s, h)
				row.with(d)
				begun := time.Now()
				_, err := s.Seed(t.Context(), h, files(t))
				took := time.Since(begun)
				d.watch.Wait() // neither side keeps a connection
				if code(err) != row.code || err != nil && (!strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), secret)) {
					t.Errorf("%v, want %s: %s", err, row.code, row.says)
				}
				if err != nil && (strings.ContainsAny(err.Error(), "\x1b\x07\n") || len(err.Error()) > 600) {
					t.Errorf("it says %q", err)
				}
				if len(d.lines) != row.lines || !slices.Equal(d.lines, lines[:row.lines]) {
					t.Errorf("it runs %q", d.lines)
				}
				if took != row.most {
					t.Errorf("it takes %v, want %v", took, row.most)
				}
				if slices.Contains(d.methods, "password") || slices.Contains(d.methods, "keyboard-interactive") {
					t.Errorf("it logs in by %q", d.methods)
				}
				if text, err := os.ReadFile(filepath.Join(d.home, "precious")); err == nil && string(text) != "mine" {
					t.Errorf("a file of somebody else's is now %q", text)
				}
			})
		})
	}
}

func says(status int, text string) func(string, ssh.Channel) int {
	return func(_ string, c ssh.Channel) int {
		_, _ = c.Stderr().Write([]byte(text))
		return status
	}
}

// openBack has the machine request channels that a client may offer.
func openBack(d *sshd) func(*ssh.ServerConn) {
	return func(c *ssh.ServerConn) {
		for _, kind := range []string{"auth-agent@openssh.com", "forwarded-tcpip", "x11", "session"} {
			if _, _, err := c.OpenChannel(kind, nil); err == nil {
				d.t.Errorf("it opens a channel %s", kind)
			}
		}
	}
}

// plant puts something in the place of the upload.
func plant(d *sshd, what string) {
	folder, precious := filepath.Join(d.home, ".hostler-hw-sync"), filepath.Join(d.home, "precious")
	must := func(err error) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
	must(os.WriteFile(precious, []byte("mine"), 0o644))
	switch what {
	case "file":
		must(os.WriteFile(folder, nil, 0o644))
	case "link":
		must(os.Mkdir(filepath.Join(d.home, "elsewhere"), 0o777))
		must(os.Symlink(filepath.Join(d.home, "elsewhere"), folder))
	case "more":
		must(os.MkdirAll(filepath.Join(folder, hwsync.Timer, "deep"), 0o755))
	case "left":
		must(os.Mkdir(folder, 0o777))
		must(os.WriteFile(filepath.Join(folder, hwsync.Credentials), []byte("half of it"), 0o644))
	case "links":
		must(os.Mkdir(folder, 0o777))
		for _, name := range []string{hwsync.Credentials, hwsync.Service, hwsync.Timer} {
			must(os.Symlink(precious, filepath.Join(folder, name)))
		}
	}
}

// A link that appears during the upload is not followed.
func TestALinkThatIsPlantedMeanwhileIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, s := newSSHD(t)
		h = noted(t, s, h)
		precious := filepath.Join(d.home, "precious")
		if err := os.WriteFile(precious, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		d.between = func() { _ = os.Symlink(precious, filepath.Join(d.home, ".hostler-hw-sync", hwsync.Credentials)) }
		_, err := s.Seed(t.Context(), h, files(t))
		d.watch.Wait()
		if code(err) != sshseed.UploadFailed || len(d.lines) > 0 {
			t.Errorf("%v, runs %q", err, d.lines)
		}
		if text, err := os.ReadFile(precious); err != nil || string(text) != "mine" {
			t.Errorf("the file is now %q, %v", text, err)
		}
	})
}

func TestTheFirstAddressThatAnswersIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, s := newSSHD(t)
		dark := netip.MustParseAddr("172.30.9.61")
		d.unreached = map[netip.Addr]bool{dark: true}
		h.Addresses = []netip.Addr{dark, h.Addresses[0]}
		begun := time.Now()
		if _, at, err := s.HostKey(t.Context(), h); err != nil || at != h.Addresses[1] || time.Since(begun) != 10*time.Second {
			t.Errorf("%v, %v after %v", at, err, time.Since(begun))
		}
		h.Addresses = h.Addresses[:1]
		if _, _, err := s.HostKey(t.Context(), h); code(err) != sshseed.Unreachable || !strings.Contains(err.Error(), dark.String()) {
			t.Error(err)
		}
		h.Addresses = nil
		if _, _, err := s.HostKey(t.Context(), h); code(err) != sshseed.Unreachable || !strings.Contains(err.Error(), "no address") {
			t.Error(err)
		}
		d.watch.Wait()
	})
}

// A broker that stops hangs up.
func TestAStopEndsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h, s := newSSHD(t)
		h = noted(t, s, h)
		d.silent = "exec"
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, stop)
		begun := time.Now()
		if _, err := s.Seed(ctx, h, files(t)); code(err) != sshseed.Unreachable || time.Since(begun) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		d.watch.Wait()
	})
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Code
}
