//go:build e2e && e2e_all

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func (s *site) bootID() string { return s.root("cat", "/proc/sys/kernel/random/boot_id") }

// bootsAgain waits until the guest runs another boot than that one.
func (s *site) bootsAgain(before string) {
	s.t.Helper()
	err := s.Wait(s.ctx, "the guest to boot again", func() error {
		// Nobody ends a connection whose other end has lost its power.
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

// What a scrub stopped runs again after the power was cut in the middle of it,
// though no boot starts it: the ledger was on the disk before the daemon stopped.
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
	s.root("sync") // all but what the scrub writes itself

	cut := s.enqueue("node.gpu_scrub", map[string]any{})
	g.reaches(cut.ID, "gpu.scrub.overwrite")
	s.root("systemd-run", "--on-active=1s", "sh", "-c", "echo b > /proc/sysrq-trigger")
	s.bootsAgain(before)
	g.runsAgain(persistence)
	// It may be delivered again, if its lease ran out before the guest had booted. A
	// scrub that ran again would hang again, and not end.
	if got := s.end(cut.ID); got.Outcome != "interrupted" {
		t.Errorf("the scrub during which the power was cut ended %+v", got)
	}
}
