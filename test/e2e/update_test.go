//go:build e2e && e2e_all

package e2e

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// stand is a program that says of itself what an agent would, passes its own test,
// and otherwise does what it is told: it stands in for a release with that fault. A
// release is any program that answers so.
const stand = `#!/bin/sh
case "$1" in
version | self-test) echo '%s' ;;
run) %s ;;
esac
`

// releases makes, signs and publishes a release at the broker.
type releases struct {
	*site
	key string
}

func (s *site) releases() *releases {
	s.t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		s.t.Fatal(err)
	}
	r := &releases{s, s.Path("release.key")}
	for name, block := range map[string]*pem.Block{r.key: {Type: "PRIVATE KEY", Bytes: private}, s.Path("release.pub"): {Type: "PUBLIC KEY", Bytes: public}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.hostler("trust", "add-release-key", s.Path("release.pub"), "--reason", "the test's releases", "--yes")
	s.must("node.trust_update", map[string]any{})
	return r
}

func (r *releases) publish(version, program string) {
	r.t.Helper()
	dir := r.Path("release-" + version + ".oci")
	r.hostler("agent-release", "pack", program, "--out", dir, "--built-at", "2026-11-01T12:00:00Z")
	r.hostler("agent-release", "sign", dir, "--key", r.key)
	r.hostler("agent-release", "publish", dir)
}

// fault publishes a release whose agent does something else than serve.
func (r *releases) fault(version, does string) {
	r.t.Helper()
	self, err := json.Marshal(release.Self{
		Version: version, Commit: "0123456789ab", OS: release.OS, Arch: release.Arch, StateSchema: release.State, Protocol: release.Protocol,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	program := r.Path("program-" + version)
	if err := os.WriteFile(program, fmt.Appendf(nil, stand, self, does), 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.publish(version, program)
}

// build publishes the agent of this tree as another version.
func (r *releases) build(version string) {
	r.t.Helper()
	program := r.Path("agent-" + version)
	cmd := exec.CommandContext(r.ctx, "go", "build", "-trimpath", "-tags", "netgo,osusergo", "-ldflags", "-s -w -X main.version="+version+" -X main.commit=0123456789ab", "-o", program, "./agent/cmd/hostler-agent")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=1", "CGO_LDFLAGS=-O2 -g -Wl,-z,lazy")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	r.publish(version, program)
}

// update has the node update itself, and returns what it says of it.
func (r *releases) update(version string, window time.Duration, meanwhile func()) (task, taskcatalog.SelfUpdateResult) {
	r.t.Helper()
	asked := r.enqueue("node.self_update", map[string]any{"phase": "update", "version": version, "confirm_window_seconds": int(window.Seconds())})
	meanwhile()
	got := r.end(asked.ID)
	var res taskcatalog.SelfUpdateResult
	if len(got.Result) > 0 {
		if err := json.Unmarshal(got.Result, &res); err != nil {
			r.t.Fatal(err)
		}
	}
	return got, res
}

// runs checks which version the node runs, by its own word and by the kernel's.
func (r *releases) runs(version string) {
	r.t.Helper()
	pid := strings.TrimSpace(r.root("systemctl", "show", "-P", "MainPID", "hostler-agent"))
	if exe := strings.TrimSpace(r.root("readlink", "/proc/"+pid+"/exe")); !strings.HasSuffix(exe, "/versions/"+version+"/hostler-agent") {
		r.t.Errorf("%s runs, want %s", exe, version)
	}
	if res := r.must("node.heartbeat_check", map[string]any{}); !strings.Contains(string(res.Result), version) {
		r.t.Errorf("the node says %s, want %s", res.Result, version)
	}
}

func TestAnUpdateIsConfirmedOrPutBack(t *testing.T) {
	s := enrolled(t)
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	s.part("AGoodUpdate", func(s *site) {
		r := s.releases()
		r.build("9.0.0")
		got, res := r.update("9.0.0", time.Minute, func() {})
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed || res.FromVersion != first || res.ToVersion != "9.0.0" {
			s.t.Fatalf("%+v %+v", got, res)
		}
		r.runs("9.0.0")
		s.t.Logf("switched in %.1f s", res.SwitchSeconds)
		for i, c := range []struct {
			name, does string
			code       taskcatalog.Code
			within     float64
		}{
			{"ItExits", "exit 1", selfupdate.CodeCrashLoop, 15},
			{"ItHangs", "exec sleep infinity", selfupdate.CodeNotReady, 150},
			{"ItNeverNotifies", "while :; do sleep 1; done", selfupdate.CodeNotReady, 150},
			{"ItCannotReachTheBroker", "HTTPS_PROXY=http://127.0.0.1:9 exec /usr/lib/hostler-agent/versions/9.0.0/hostler-agent run", selfupdate.CodeNoContact, 240},
			{"ItDamagesItsState", "echo damaged > /var/lib/hostler-agent/ledger.db; exit 1", selfupdate.CodeCrashLoop, 15},
		} {
			s.part(c.name, func(s *site) {
				r := &releases{s, r.key}
				version := fmt.Sprintf("9.1.%d", i)
				r.fault(version, c.does)
				got, res := r.update(version, 30*time.Second, func() {})
				if got.Status != "failed" || taskcatalog.Code(got.Code) != c.code || res.Outcome != taskcatalog.UpdateRolledBack {
					s.t.Fatalf("%+v %+v", got, res)
				}
				if res.SwitchSeconds > c.within {
					s.t.Errorf("it took %.1f s", res.SwitchSeconds)
				}
				s.t.Logf("put back in %.1f s", res.SwitchSeconds)
				r.runs("9.0.0")
				if again, _ := r.update(version, 30*time.Second, func() {}); taskcatalog.Code(again.Code) != selfupdate.CodePinned {
					s.t.Errorf("once more: %+v", again)
				}
			})
		}
		s.part("TheBrokerIsAwayForLongerThanTheWindow", func(s *site) {
			r := &releases{s, r.key}
			r.build("9.2.0")
			got, res := r.update("9.2.0", 30*time.Second, func() {
				err := s.Wait(s.ctx, "the new version to run", func() error {
					if out := s.root("readlink", "/usr/lib/hostler-agent/current"); !strings.Contains(out, "9.2.0") {
						return fmt.Errorf("current is %s", out)
					}
					return s.KillBroker()
				})
				if err != nil {
					s.t.Fatal(err)
				}
				err = s.Wait(s.ctx, "the window to be over twice", func() error {
					var seen struct {
						Trial *selfupdate.Trial `json:"trial"`
					}
					if err := json.Unmarshal([]byte(s.root("hostler-agent", "update", "show", "-o", "json")), &seen); err != nil {
						return err
					}
					if seen.Trial == nil {
						s.t.Fatal("the trial ended while the broker was away")
					}
					if seen.Trial.WatchedSeconds < 60 {
						return fmt.Errorf("it was watched for %d s", seen.Trial.WatchedSeconds)
					}
					return nil
				})
				if err != nil {
					s.t.Fatal(err)
				}
				if err := s.StartBroker(s.ctx); err != nil {
					s.t.Fatal(err)
				}
			})
			if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
				s.t.Fatalf("%+v %+v", got, res)
			}
			r.runs("9.2.0")
		})
	})
}
