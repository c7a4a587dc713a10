package steps

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAHealthCheckLooksAndSaysWhatIsNotWell(t *testing.T) {
	h, dir := hosttest.Box(t)
	h.Systemd.(*hosttest.Systemd).On = map[string]bool{"up.service": true}
	hosttest.Put(t, dir, "var/there", "x")
	hosttest.OK(t, os.Symlink("there", filepath.Join(dir, "var/link")))
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ill":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/long":
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return // nobody reads on
				}
			}
			t.Error("all of a long answer was read")
		case "/headers":
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 4<<10))
			}
		}
	}))
	defer web.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.OK(t, err)
	shut := closed.Addr().String()
	hosttest.OK(t, closed.Close())
	for _, c := range []struct {
		check, target string
		well          bool
	}{
		{"tcp", web.Listener.Addr().String(), true},
		{"tcp", shut, false},
		{"http", web.URL, true},
		{"http", web.URL + "/long", true},
		{"http", web.URL + "/ill", false},
		{"http", web.URL + "/away", false},
		{"http", web.URL + "/headers", false},
		{"http", "http://" + shut, false},
		{"unit", "up.service", true},
		{"unit", "down.service", false},
		{"file", "/var/there", true},
		{"file", "/var/missing", false},
		{"file", "/var/link", false},
		{"file", "/var", false},
	} {
		_, err := do(t, aStep(t, h, "health.check", Args{"check": c.check, "target": c.target}))
		if (err == nil) != c.well || err != nil && taskcatalog.CodeOf(err, "") != CodeUnhealthy {
			t.Errorf("%s %s: %v", c.check, c.target, err)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

func TestTheTargetOfAHealthCheckHasAForm(t *testing.T) {
	for target, check := range map[string]string{
		"localhost": "tcp", ":80": "tcp", "localhost:0": "tcp", "localhost:70000": "tcp", "file:///etc/shadow": "http", "http://": "http",
		"gopher://localhost/": "http", "http://user:password@localhost/": "http", "up": "unit", "../up.service": "unit", "etc/passwd": "file", "/etc/../x": "file",
	} {
		s := planned(t, fmt.Sprintf(`{"id":"x","kind":"health.check","with":{"check":%q,"target":%q}}`, check, target))
		if checkHealthTarget(s) == nil {
			t.Errorf("%s is a target of %s", target, check)
		}
	}
}

// A check by root reaches no metadata service, and repeats no text of the other side.
func TestAHealthCheckGivesNothingAway(t *testing.T) {
	h, _ := hosttest.Box(t)
	for target, check := range map[string]string{
		"169.254.169.254:80": "tcp", "[fe80::1%lo]:80": "tcp", "[::ffff:169.254.169.254]:80": "tcp", "224.0.0.1:80": "tcp",
		"http://169.254.169.254/latest/meta-data": "http", "http://[fd00:ec2::254]/": "http",
	} {
		_, err := do(t, aStep(t, h, "health.check", Args{"check": check, "target": target}))
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("%s: %v", target, err)
		}
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.OK(t, err)
	defer other.Close()
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("planted-banner\r\n\r\n"))
			_ = c.Close()
		}
	}()
	for _, target := range []string{"http://" + other.Addr().String(), "http://planted-banner.invalid/"} {
		_, err := do(t, aStep(t, h, "health.check", Args{"check": "http", "target": target}))
		if err == nil || strings.Contains(strings.Replace(err.Error(), target, "", 1), "planted-banner") {
			t.Errorf("%s: %v", target, err)
		}
	}
}
