package steps

import (
	"cmp"
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// CodeUnitState: systemd has done what it was asked, and the unit is not as the action leaves it.
const CodeUnitState taskcatalog.Code = "unit_state"

// unitControlled reports whether the unit already is as the action leaves it. Nothing proves a
// restart: a unit that runs may be the one from before.
func unitControlled(ctx context.Context, s *Step) (Proof, bool, error) {
	action := s.Args.Text("action")
	if action == "restart" {
		return Proof{}, false, nil
	}
	return unitIs(ctx, s, action)
}

// restarts reports whether the step restarts a unit.
func restarts(s *taskcatalog.PlannedStep) bool { return s.With["action"].Literal == "restart" }

// unitIs reports whether the unit is as an action leaves it.
func unitIs(ctx context.Context, s *Step, action string) (Proof, bool, error) {
	state, err := s.Host.Systemd.State(ctx, s.Args.Text("unit"))
	if err != nil {
		return Proof{}, false, err
	}
	var done bool
	switch action {
	case "start", "restart":
		done = state.Active == "active"
	case "stop":
		done = state.Active == "inactive" || state.Active == "failed"
	case "enable":
		done = state.Enabled == "enabled"
	case "disable":
		done = state.Enabled == "disabled"
	}
	return Proof{Message: s.Args.Text("unit") + " is " + state.Active + ", " + cmp.Or(state.Enabled, "without a file")}, done, nil
}

// controlUnit asks systemd, and looks at the unit then. A job ends well also where a condition of the
// unit does not hold, and a unit without an [Install] section is enabled without effect.
func controlUnit(ctx context.Context, s *Step) (Proof, error) {
	unit, action, systemd := s.Args.Text("unit"), s.Args.Text("action"), s.Host.Systemd
	starts := action == "start" || action == "restart"
	var before host.UnitRun
	var err error
	if starts {
		if before, err = systemd.LastRun(ctx, unit); err != nil {
			return Proof{}, err
		}
	}
	switch action {
	case "start":
		err = systemd.Start(ctx, unit)
	case "stop":
		err = systemd.Stop(ctx, unit)
	case "restart":
		err = systemd.Restart(ctx, unit)
	case "enable":
		if err = systemd.Enable(ctx, unit); err == nil {
			err = systemd.Reload(ctx)
		}
	case "disable":
		if err = systemd.Disable(ctx, unit); err == nil {
			err = systemd.Reload(ctx)
		}
	default:
		err = taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "%s is no action on a unit", action)
	}
	if err != nil {
		return Proof{}, err
	}
	proof, done, err := unitIs(ctx, s, action)
	if err == nil && !done && starts {
		proof, done, err = ranSince(ctx, s, before, proof)
	}
	if err == nil && !done {
		err = taskcatalog.Errorf(CodeUnitState, "systemd has ended the job %s, and %s (systemctl status %s says why)", action, proof.Message, unit)
	}
	return proof, err
}

// ranSince reports whether the unit is of the type oneshot and has ended a run with success since a
// former look. Such a unit is inactive afterwards, unless it says RemainAfterExit. Later nothing proves that
// the step caused the run: a look does not find it.
func ranSince(ctx context.Context, s *Step, before host.UnitRun, proof Proof) (Proof, bool, error) {
	run, err := s.Host.Systemd.LastRun(ctx, s.Args.Text("unit"))
	if err != nil || !run.Oneshot || run.Result != "success" || run.ExitStatus != 0 ||
		run.FinishedAt.IsZero() || run.FinishedAt.Equal(before.FinishedAt) {
		return proof, false, err
	}
	return Proof{Message: s.Args.Text("unit") + " has run, and ended with success"}, true, nil
}
