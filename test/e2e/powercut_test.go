//go:build e2e && e2e_all

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// bootsAgain waits until the guest's boot id differs from before.
func (s *site) bootsAgain(before string) {
	s.t.Helper()
	err := s.Wait(s.ctx, "the guest to boot again", func() error {
		// A connection to a guest that lost its power never ends by itself.
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
		defer cancel()
		r, err := s.guest.Run(ctx, "cat", "/proc/sys/kernel/random/boot_id")
		if err == nil && strings.TrimSpace(r.Stdout) == before {
			err = errors.New("it still runs")
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// After a power cut during a scrub, the daemon that the scrub stopped runs again although no boot
// starts it: the ledger was on disk before the daemon stopped.
func TestAPowerCutDuringAScrubLeavesNoDaemonStopped(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	g := s.install("nvidia", 2)
	s.put("/usr/lib/systemd/system/"+persistence, []byte(daemon), 0o644) // as its package does
	s.root("systemctl", "start", persistence)
	s.hostler("resolver", "push", shipped, "--nodes", "all", "--version", "v1")
	s.enrol()
	g.faults("fault.0 hang fill")
	before := s.bootID()
	s.root("sync") // writes out everything except the scrub's own data

	cut := s.enqueue("node.gpu_scrub", map[string]any{})
	g.reaches(cut.ID, "gpu.scrub.overwrite")
	s.root("systemd-run", "--on-active=1s", "sh", "-c", "echo b > /proc/sysrq-trigger")
	s.bootsAgain(before)
	g.runsAgain(persistence)
	// The task may be delivered again if its lease expired before the guest booted. A scrub that
	// ran again would hang again and never end.
	if got := s.end(cut.ID); got.Outcome != "interrupted" {
		t.Errorf("the scrub during which the power was cut ended %+v", got)
	}
}
