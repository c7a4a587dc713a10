//go:build e2e

package e2e

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/qemu"
)

// runScripts is the maas-run-scripts program that the rack serves.
//
//go:embed rack/maas-run-scripts.py
var runScripts []byte

const (
	maasPath     = "/MAAS/metadata/2012-03-01/"
	machineToken = "oauth-machine-token-9c41"
	tokenSecret  = "oauth-token-secret-5d20e7"
)

// rack plays a MAAS rack controller for hardware sync.
type rack struct {
	mu       sync.Mutex
	down     bool     // the rack serves no program
	refuses  bool     // the rack refuses every token
	signaled []string // statuses
}

func (r *rack) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	authorized := strings.Contains(q.Header.Get("Authorization"), `oauth_token="`+machineToken+`"`) &&
		strings.Contains(q.Header.Get("Authorization"), `oauth_signature="%26`+tokenSecret+`"`)
	switch {
	case r.down:
		http.Error(w, "there is nothing here", http.StatusNotFound)
	case q.URL.Path == "/MAAS/maas-run-scripts":
		_, _ = w.Write(runScripts)
	case r.refuses || !authorized:
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case q.Method == http.MethodGet && q.URL.Path == maasPath+"maas-scripts":
		w.WriteHeader(http.StatusNoContent)
	case q.Method == http.MethodPost && q.URL.Path == maasPath && q.FormValue("op") == "signal":
		r.signaled = append(r.signaled, q.FormValue("status"))
	default:
		http.NotFound(w, q)
	}
}

// set changes the rack's answers from now on and returns the signals so far.
func (r *rack) set(down, refuses bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.refuses = down, refuses
	return slices.Clone(r.signaled)
}

// serve answers on the host's loopback and returns the address for the guest.
func (r *rack) serve(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(qemu.HostAddress, port)
}

// hardwareSync seeds hardware sync again on a machine without it: with a working rack, a rack that
// is down, and a rack that refuses the token.
func hardwareSync(s *site) {
	var r rack
	token := s.Path("maas-machine-creds.yml")
	write(s.t, token, fmt.Sprintf("reporting: {maas: {consumer_key: CK1, endpoint: \"http://%s/MAAS/metadata/status/abc123\", token_key: %s, token_secret: %s}}\n",
		r.serve(s.t), machineToken, tokenSecret))
	if t := s.do("node.hw_sync_reseed", map[string]any{}); t.Code != "secret_not_found" || len(r.set(false, false)) != 0 {
		s.t.Errorf("without credentials it ended %s %s", t.Status, t.Code)
	}
	s.hostler("node", "credentials", node, "--maas-token-file", token)

	begun := time.Now()
	done := s.must("node.hw_sync_reseed", map[string]any{"interval_minutes": 30})
	var res taskcatalog.HWSyncReseedResult
	if err := json.Unmarshal(done.Result, &res); err != nil {
		s.t.Fatal(err)
	}
	// The guest's clock was set to the host's at the beginning of the case.
	if !res.TimerActive || res.SyncStartedAt.Before(begun.Add(-30*time.Second)) || !res.SyncFinishedAt.After(res.SyncStartedAt) || res.ExitStatus != 0 {
		s.t.Errorf("the result is %+v", res)
	}
	if got := r.set(false, false); !slices.Equal(got, []string{"WORKING"}) {
		s.t.Errorf("the rack was signaled %q, want WORKING once and nothing else", got)
	}
	if st := s.root("stat", "--format", "%U:%G %a", "/etc/maas/maas-machine-creds.yml"); st != "root:root 700" {
		s.t.Errorf("the credentials are %s", st)
	}
	if on := s.root("systemctl", "is-enabled", "maas_hardware_sync.timer"); on != "enabled" {
		s.t.Errorf("the timer is %s", on)
	}

	for name, c := range map[string]struct {
		down, refuses bool
		status        string // of wget, and of the rack's own program
	}{"is down": {true, false, "status 8 "}, "takes no token": {false, true, "status 1 "}} {
		before := len(r.set(c.down, c.refuses))
		if t := s.do("node.hw_sync_reseed", map[string]any{}); t.Status != "failed" || t.Code != "hw_sync_failed" || !strings.Contains(t.Message, c.status) {
			s.t.Errorf("with a rack that %s it ended %s %s: %s", name, t.Status, t.Code, t.Message)
		}
		if got := r.set(false, false); len(got) != before {
			s.t.Errorf("a rack that %s was signaled %q", name, got)
		}
	}
	s.tokenIsNowhereElse()
}

// tokenIsNowhereElse searches for the secret in every place that must not hold it.
func (s *site) tokenIsNowhereElse() {
	s.t.Helper()
	r, err := s.guest.Run(s.ctx, "grep", "--recursive", "--files-with-matches", "--fixed-strings", tokenSecret,
		"/etc", "/var/lib/hostler-agent", "/var/log", "/var/lib/systemd", "/run", "/tmp", "/var/tmp", "/usr/lib/systemd/system", "/root")
	if r.Stdout != "/etc/maas/maas-machine-creds.yml\n" {
		s.t.Errorf("the token's secret is in %q: %v", r.Stdout, err)
	}
	if strings.Contains(s.root("journalctl", "--no-pager"), tokenSecret) {
		s.t.Error("the token's secret is in the guest's journal")
	}
	err = filepath.WalkDir(s.DataDir(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		if bytes.Contains(raw, []byte(tokenSecret)) {
			s.t.Errorf("the token's secret is readable in the broker's %s", name)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	if strings.Contains(s.BrokerLog(), tokenSecret) {
		s.t.Error("the token's secret is in the broker's log")
	}
}
