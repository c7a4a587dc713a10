package users

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// keyLine makes a key pair and returns the public half as a line.
func keyLine(t *testing.T, private any, err error) (ssh.PublicKey, string) {
	t.Helper()
	hosttest.OK(t, err)
	s, err := ssh.NewSignerFromKey(private)
	hosttest.OK(t, err)
	return s.PublicKey(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func ed25519Key(t *testing.T) (ssh.PublicKey, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return keyLine(t, private, err)
}

// sshd serves SSH on loopback, and takes the users' keys for which takes is true.
func sshd(t *testing.T, takes func(user string, key ssh.PublicKey) bool) (at server, hostKey string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	hosttest.OK(t, err)
	hostSigner, err := ssh.NewSignerFromKey(private)
	hosttest.OK(t, err)
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if takes(c.User(), key) {
			return nil, nil
		}
		return nil, os.ErrPermission
	}}
	config.AddHostKey(hostSigner)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _, _, _ = ssh.NewServerConn(conn, config)
				_ = conn.Close()
			}()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	hosttest.OK(t, err)
	own := func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil }
	return server{port: port, own: own, routed: routedAddresses}, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostSigner.PublicKey())))
}

func TestALoginIsProvenByTheServerWithoutTheUsersPrivateKey(t *testing.T) {
	h, _ := hosttest.Box(t)
	first, one := ed25519Key(t)
	_, second := ed25519Key(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	third, rsaLine := keyLine(t, private, err)
	var asked atomic.Int64
	s, hostKey := sshd(t, func(user string, key ssh.PublicKey) bool {
		asked.Add(1)
		return user == "alice" && (string(key.Marshal()) == string(first.Marshal()) || string(key.Marshal()) == string(third.Marshal()))
	})
	keys := []string{one, second, rsaLine}
	_, err = provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", SSHKeys: keys})
	hosttest.OK(t, err)
	got, err := s.checkLogin(t.Context(), h, &taskcatalog.CheckLoginParams{AllocationID: "a-1", Username: "alice", SSHKeys: keys, Address: "127.0.0.1"})
	hosttest.OK(t, err)
	if got.Address != "127.0.0.1" || strings.Join(got.KeyTypes, " ") != "ssh-ed25519 ssh-rsa" || got.HostKey != hostKey {
		t.Errorf("got %+v, want the host key %s", got, hostKey)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the server was asked for %d keys: one of each type is enough", n)
	}
}

// The tenant is told the address that is proven first. Nobody reaches a bridge for containers from outside.
func TestTheServerIsAskedFirstWhereOthersReachIt(t *testing.T) {
	at := netip.MustParseAddr
	s := server{
		own: func() ([]netip.Addr, error) {
			return []netip.Addr{at("172.17.0.1"), at("10.0.0.7"), at("fd00::7")}, nil
		},
		routed: func() []netip.Addr { return []netip.Addr{at("10.0.0.7"), at("192.0.2.9")} },
	}
	got, err := s.addresses("")
	want := []netip.Addr{at("10.0.0.7"), at("172.17.0.1"), at("fd00::7")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := s.addresses("10.0.0.3"); err != nil || !slices.Equal(got, want) {
		t.Errorf("MAAS has the address of the last system: %v, %v; want %v", got, err, want)
	}
	if got, err := s.addresses("fd00::7"); err != nil || !slices.Equal(got, want[2:]) {
		t.Errorf("MAAS has an address of the node: %v, %v", got, err)
	}
	s.routed = func() []netip.Addr { return nil }
	if got, err := s.addresses(""); err != nil || len(got) != 3 || got[0] != at("172.17.0.1") {
		t.Errorf("without a default route: %v, %v", got, err)
	}
}

// Whoever is told a loopback address, or one that only the node's own link knows, does not reach the node.
func TestOnlyAddressesThatOthersReachCount(t *testing.T) {
	all, err := interfaceAddresses()
	hosttest.OK(t, err)
	for _, a := range all {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			t.Errorf("%s counts", a)
		}
	}
}

func TestALoginThatIsNotProvenIsRefused(t *testing.T) {
	_, line := ed25519Key(t)
	_, other := ed25519Key(t)
	for name, c := range map[string]struct {
		spoil  func(*testing.T, *host.Host, string, *server, *taskcatalog.CheckLoginParams)
		takes  bool
		code   taskcatalog.Code
		saying string
	}{
		"the server does not take the key": {code: "keys_refused", saying: "accepts none of the keys SHA256:"},
		"no server listens": {takes: true, code: "login_refused", saying: "connection refused", spoil: func(t *testing.T, _ *host.Host, _ string, s *server, _ *taskcatalog.CheckLoginParams) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			hosttest.OK(t, err)
			_, s.port, err = net.SplitHostPort(l.Addr().String())
			hosttest.OK(t, err)
			hosttest.OK(t, l.Close())
		}},
		"the node has no address": {takes: true, code: "no_address", saying: "no address", spoil: func(_ *testing.T, _ *host.Host, _ string, s *server, _ *taskcatalog.CheckLoginParams) {
			s.own = func() ([]netip.Addr, error) { return nil, nil }
		}},
		"another allocation": {takes: true, code: "allocation_unknown", saying: "a-2", spoil: func(_ *testing.T, _ *host.Host, _ string, _ *server, p *taskcatalog.CheckLoginParams) {
			p.AllocationID = "a-2"
		}},
		"the keys were changed on the node": {takes: true, code: "user_changed", saying: "authorized_keys", spoil: func(t *testing.T, _ *host.Host, dir string, _ *server, _ *taskcatalog.CheckLoginParams) {
			hosttest.OK(t, os.WriteFile(filepath.Join(dir, "home/alice/.ssh/authorized_keys"), []byte(other+"\n"), 0o600))
		}},
		"the keys are a link": {takes: true, code: "user_changed", saying: "authorized_keys", spoil: func(t *testing.T, _ *host.Host, dir string, _ *server, _ *taskcatalog.CheckLoginParams) {
			name := filepath.Join(dir, "home/alice/.ssh/authorized_keys")
			hosttest.OK(t, os.Rename(name, name+".there"))
			hosttest.OK(t, os.Symlink("authorized_keys.there", name))
		}},
		"everybody may write the home": {takes: true, code: "user_changed", saying: "/home/alice", spoil: func(t *testing.T, _ *host.Host, dir string, _ *server, _ *taskcatalog.CheckLoginParams) {
			hosttest.OK(t, os.Chmod(filepath.Join(dir, "home/alice"), 0o777))
		}},
		"a key that cannot be read": {takes: true, code: taskcatalog.CodeBadParams, saying: "cannot be read", spoil: func(t *testing.T, h *host.Host, _ string, _ *server, p *taskcatalog.CheckLoginParams) {
			p.SSHKeys = []string{hosttest.AliceKey}
			_, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", SSHKeys: p.SSHKeys})
			hosttest.OK(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := hosttest.Box(t)
			s, _ := sshd(t, func(string, ssh.PublicKey) bool { return c.takes })
			p := &taskcatalog.CheckLoginParams{AllocationID: "a-1", Username: "alice", SSHKeys: []string{line}, Address: "127.0.0.1"}
			_, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", SSHKeys: p.SSHKeys})
			hosttest.OK(t, err)
			if c.spoil != nil {
				c.spoil(t, h, dir, &s, p)
			}
			got, err := s.checkLogin(t.Context(), h, p)
			if taskcatalog.CodeOf(err, "") != c.code || !strings.Contains(err.Error(), c.saying) {
				t.Errorf("got %+v, %v; want code %s and %q", got, err, c.code, c.saying)
			}
		})
	}
}

// A key of a kind that the server does not permit keeps nobody out who has another one.
func TestKeysThatTheServerRefusesAreNamed(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 2048)
	refused, shortLine := keyLine(t, short, err)
	long, err := rsa.GenerateKey(rand.Reader, 3072)
	_, longLine := keyLine(t, long, err)
	_, edLine := ed25519Key(t)
	s, hostKey := sshd(t, func(_ string, key ssh.PublicKey) bool {
		return rsaBits(key) >= 3072 || key.Type() == ssh.KeyAlgoED25519
	})
	for name, c := range map[string]struct {
		keys  []string
		types string
		code  taskcatalog.Code
	}{
		"another type":       {[]string{shortLine, edLine}, "ssh-ed25519", ""},
		"a longer one":       {[]string{shortLine, longLine}, "ssh-rsa", ""},
		"no other key":       {[]string{shortLine}, "", taskcatalog.CodeKeysRefused},
		"nothing is refused": {[]string{longLine, edLine}, "ssh-rsa ssh-ed25519", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := hosttest.Box(t)
			_, err := provision(t, h, taskcatalog.ProvisionUserParams{AllocationID: "a-1", Username: "alice", SSHKeys: c.keys})
			hosttest.OK(t, err)
			got, err := s.checkLogin(t.Context(), h, &taskcatalog.CheckLoginParams{AllocationID: "a-1", Username: "alice", SSHKeys: c.keys, Address: "127.0.0.1"})
			if code := taskcatalog.CodeOf(err, ""); code != c.code || got == nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			want := ""
			if slices.Contains(c.keys, shortLine) {
				want = ssh.FingerprintSHA256(refused)
			}
			if strings.Join(got.RefusedKeys, " ") != want || strings.Join(got.KeyTypes, " ") != c.types || got.HostKey != hostKey {
				t.Errorf("got %+v, want the types %q, and %q refused", got, c.types, want)
			}
		})
	}
}
