//go:build e2e

package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/registry"
)

// A node updates itself, and puts the older version back when the new one does not work.
func TestANodeUpdatesItself(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	s.enrol()
	r := s.releases()
	r.runs(first)
	s.part("AGoodUpdateFromARegistry", func(s *site) {
		r := r.of(s)
		r.build("9.0.0", "--registry", s.registry(registry.Start(s.t, registry.Config{}).Addr), "--plain-http")
		got, res := r.update("9.0.0", 30*time.Second, func() {})
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed || res.FromVersion != first || res.ToVersion != "9.0.0" {
			s.t.Fatalf("%+v %+v", got, res)
		}
		s.t.Logf("switched in %.1f s", res.SwitchSeconds)
		r.holds("9.0.0")
	})
	s.part("ABrokenOneIsPutBack", func(s *site) {
		r := r.of(s)
		r.fault("9.1.0", "exit 1")
		got, res := r.update("9.1.0", 30*time.Second, func() {})
		if got.Status != "failed" || taskcatalog.Code(got.Code) != selfupdate.CodeCrashLoop || res.Outcome != taskcatalog.UpdateRolledBack {
			s.t.Fatalf("%+v %+v", got, res)
		}
		if res.SwitchSeconds > 15 {
			s.t.Errorf("it took %.1f s", res.SwitchSeconds)
		}
		s.t.Logf("put back in %.1f s", res.SwitchSeconds)
		if again, _ := r.update("9.1.0", 30*time.Second, func() {}); taskcatalog.Code(again.Code) != selfupdate.CodePinned {
			s.t.Errorf("once more: %+v", again)
		}
		r.holds("9.0.0")
	})
}

// says checks the version that a node reports.
func (s *site) says(version string) {
	s.t.Helper()
	if res := s.must("node.heartbeat_check", map[string]any{}); !strings.Contains(string(res.Result), version) {
		s.t.Errorf("the node says %s, want %s", res.Result, version)
	}
}

// registry lets the guest reach a registry of this machine by the same address, and returns a
// repository of the registry.
func (s *site) registry(addr string) string {
	s.t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		err = lab.LeadTo(s.ctx, s.guest, port)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return addr + "/hostler/agent"
}
