//go:build e2e && e2e_all

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/test/qemu"
)

// mirror is an operator's web server with the agent's package, other content, or none.
type mirror struct{ content atomic.Pointer[[]byte] }

func (m *mirror) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b := m.content.Load()
	if b == nil {
		http.Error(w, "not there yet", http.StatusNotFound)
		return
	}
	_, _ = w.Write(*b)
}

func (m *mirror) serve(t testing.TB) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "http://" + net.JoinHostPort(qemu.HostAddress, port) + "/hostler-agent.deb"
}

// impatient shortens the waits of a first boot to seconds; the rest stays as rendered.
func impatient(t *testing.T, userData string) string {
	t.Helper()
	for was, is := range map[string]string{
		"\n|RestartSec=20\n":               "\n|RestartSec=2\n",
		"--retry 3 ":                       "--retry 1 ",
		"\n|TimeoutStartSec=30\n":          "\n|TimeoutStartSec=2\n",
		" enroll --broker ":                " enroll --timeout 2s --broker ",
		"waiting up to 30 s for the clock": "waiting up to 2 s for the clock",
	} {
		if !strings.Contains(userData, was) {
			t.Fatalf("the user-data does not have %q any more", was)
		}
		userData = strings.ReplaceAll(userData, was, is)
	}
	return userData
}

// A first boot meets every known trouble in sequence and continues by itself after each is mended.
func TestAFirstBootTriesUntilItIsThrough(t *testing.T) {
	s := newSiteOfItsOwn(t)
	ctx := s.ctx
	var m mirror
	userData := s.hostler("node", "create", "--hostname", node, "--bootstrap", "cloud-init", "--ttl", "1m", "--package-url", m.serve(t))
	expires := time.Now().Add(time.Minute)
	if err := s.KillBroker(); err != nil {
		t.Fatal(err)
	}
	s.guest = qemu.Start(t, shared.image, qemu.Config{Name: node, UserData: impatient(t, userData), ReachHost: true})
	says := func(what string) {
		t.Helper()
		if _, err := s.guest.WaitConsole(ctx, regexp.MustCompile(what)); err != nil {
			t.Fatal(err)
		}
		t.Logf("seen: %s", what)
	}
	says("hostler: waiting up to 2 s for the clock to be set")
	says(`hostler: fetching the agent from https://`)
	says(`Failed to connect|Couldn't connect`) // the broker is away
	says(`hostler: fetching the agent from http://`)
	says(`The requested URL returned error: 404`)

	wrong := []byte("not the package")
	m.content.Store(&wrong)
	says(`agent\.deb\.unverified: FAILED`)
	if r, err := s.guest.Run(ctx, "test", "-e", "/usr/bin/hostler-agent"); err == nil {
		t.Errorf("something was installed from a package of another digest: %+v", r)
	}

	right, err := os.ReadFile(agentPackage(t))
	if err != nil {
		t.Fatal(err)
	}
	m.content.Store(&right)
	says(`agent\.deb\.unverified: OK`)
	says(`hostler: enrolling at https://`)
	says(`broker_unreachable`)

	if err := s.Wait(ctx, "the token to expire", func() error {
		if left := time.Until(expires); left > 0 {
			return fmt.Errorf("it lives for another %s", left)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.StartBroker(ctx); err != nil {
		t.Fatal(err)
	}
	says(`token_expired`)
	s.hostler("node", "token", "extend", node, "--reason", "the rack came late")
	says("hostler: this machine is enrolled")
	s.waitNode("active")
	for _, gone := range []string{"/etc/hostler-agent/enroll.token", "/var/lib/hostler-bootstrap/agent.deb"} {
		if _, err := s.guest.Run(ctx, "test", "-e", gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	if err := s.guest.WaitCloudInit(ctx); err != nil {
		t.Error(err)
	}
}
