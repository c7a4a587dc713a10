package steps

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// boot is the checkpoint of a restart: the boot in which the step asked for another, and the task of
// the operation that asked. A restart that an earlier task asked for is no restart of this one.
type boot struct {
	Attempt int    `json:"attempt"`
	ID      string `json:"id"`
}

// rebooted reports whether the machine has started again since the step asked for it. The kernel gives
// each boot another id.
func rebooted(_ context.Context, s *Step) (Proof, bool, error) {
	raw, err := s.Checkpoint.Load()
	if err != nil || raw == nil {
		return Proof{}, false, err
	}
	var asked boot
	if err := taskcatalog.DecodeLoose(raw, &asked); err != nil {
		return Proof{}, false, err
	}
	now, err := s.Host.Machine.BootID()
	if err != nil {
		return Proof{}, false, err
	}
	done := asked.Attempt == s.Plan.Attempt && now != "" && asked.ID != "" && now != asked.ID
	return Proof{Message: "the machine runs boot " + taskcatalog.Clean(now, 64)}, done, nil
}

// reboot asks systemd to restart the machine, and waits for the end: the agent is stopped in the
// middle. A machine that does not go down in the step's time has failed the step.
func reboot(ctx context.Context, s *Step) (Proof, error) {
	id, err := s.Host.Machine.BootID()
	if err != nil || id == "" {
		return Proof{}, fmt.Errorf("cannot restart the machine: the id of its boot cannot be read: %w", err)
	}
	raw, err := taskcatalog.Encode(boot{Attempt: s.Plan.Attempt, ID: id})
	if err != nil {
		return Proof{}, err
	}
	if err := s.Checkpoint.Save(raw); err != nil {
		return Proof{}, err
	}
	s.Progress(0, "the machine restarts")
	if err := s.Host.Systemd.Reboot(ctx); err != nil {
		return Proof{}, err
	}
	<-ctx.Done()
	return Proof{}, fmt.Errorf("the machine has not gone down: %w", context.Cause(ctx))
}

// always says of each step host.reboot that a later task does not do it again.
func always(*taskcatalog.PlannedStep) bool { return true }
