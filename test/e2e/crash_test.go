//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// started waits until a task runs on the node.
func (s *site) started(id string) {
	s.t.Helper()
	err := s.Wait(s.ctx, "task "+id+" to run", func() error {
		var t struct {
			Status   string `json:"status"`
			Progress *struct {
				Step string `json:"current_step_name"`
			} `json:"progress"`
		}
		s.json(&t, "task", "show", id)
		if t.Status != "dispatched" || t.Progress == nil {
			return fmt.Errorf("it is %s, %+v", t.Status, t.Progress)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// The trouble happens on one node with a tenant, in sequence.
func TestInTroubleATaskEndsOnceInATrueState(t *testing.T) {
	s := enrolled(t)
	s.provision("a-1", "alice")
	s.part("KilledInTheMiddle", killed)
	s.part("WithAFullDisk", full)
}

// An agent killed during a task restarts by itself and reports the task as interrupted. A broker
// killed during a task restarts and accepts the result. In both cases the task ends exactly once.
func killed(s *site) {
	// A process that ignores SIGTERM delays the drain for its grace period.
	s.as("alice", "setsid nohup sh -c 'trap \"\" TERM; while :; do sleep 1; done' > /dev/null 2>&1 < /dev/null &")

	interrupted := s.enqueue("node.drain", map[string]any{"grace_seconds": 60})
	s.started(interrupted.ID)
	s.root("systemctl", "kill", "--signal=KILL", "hostler-agent")
	if got := s.end(interrupted.ID); got.Outcome != "interrupted" || got.Attempt != 1 {
		s.t.Errorf("the task of the agent that was killed ended %+v", got)
	}

	reported := s.enqueue("node.drain", map[string]any{"grace_seconds": 5})
	s.started(reported.ID)
	if err := s.KillBroker(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBroker(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	if got := s.end(reported.ID); got.Status != "succeeded" || got.Attempt != 1 {
		s.t.Errorf("the task over which the broker was killed ended %+v", got)
	}
	s.hostler("audit", "verify")
}

// With no byte left on the root file system the node can still be drained, cleaned and checked, and
// it reports its state.
func full(s *site) {
	s.root("sh", "-c", "fallocate --length $(( $(stat -f -c '%f * %S' /) )) /var/tmp/full || true; cat /dev/zero > /var/tmp/rest 2> /dev/null || true; chown alice /var/tmp/full /var/tmp/rest")
	if r, err := s.guest.Run(s.ctx, "dd", "if=/dev/zero", "of=/var/lib/more", "bs=1M", "count=1"); err == nil || !strings.Contains(r.Stderr, "No space left") {
		s.t.Fatalf("the disk is not full, so the test proves nothing: %v %s", err, r.Stderr)
	}
	s.root("rm", "/var/lib/more")
	s.must("node.drain", map[string]any{"grace_seconds": 1})
	dirty := s.must("node.validate_clean", map[string]any{})
	if dirty.Verdict != "not_clean" {
		s.t.Errorf("the verdict on a full disk is %s", dirty.Verdict)
	}
	cleanup := s.must("node.storage_cleanup", map[string]any{"scope": "local", "allocation_id": "a-1"})
	var said taskcatalog.StorageCleanupResult
	if err := json.Unmarshal(cleanup.Result, &said); err != nil || !said.RootWasFull {
		s.t.Errorf("that the disk was full is not told: %v %s", err, cleanup.Result)
	}
	s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	clean := s.must("node.validate_clean", map[string]any{})
	if clean.Verdict != "clean" {
		s.t.Errorf("the verdict after the cleanup is %s: %+v", clean.Verdict, s.evidence(clean.ID).Findings)
	}
}
