package steps

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// unitControlled reports whether the unit already is as the action leaves it. Nothing proves a
// restart: a unit that runs may be the one from before.
func unitControlled(ctx context.Context, s *Step) (Proof, bool, error) {
	action := s.Args.Text("action")
	if action == "restart" {
		return Proof{}, false, nil
	}
	state, err := s.Host.Systemd.State(ctx, s.Args.Text("unit"))
	if err != nil {
		return Proof{}, false, err
	}
	var done bool
	switch action {
	case "start":
		done = state.Active == "active"
	case "stop":
		done = state.Active == "inactive" || state.Active == "failed"
	case "enable":
		done = state.Enabled == "enabled"
	case "disable":
		done = state.Enabled == "disabled"
	}
	return Proof{Message: s.Args.Text("unit") + " is " + state.Active + ", " + state.Enabled}, done, nil
}

// controlUnit asks systemd. The end of systemd's job is the proof.
func controlUnit(ctx context.Context, s *Step) (Proof, error) {
	unit, action, systemd := s.Args.Text("unit"), s.Args.Text("action"), s.Host.Systemd
	var err error
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
	return Proof{Message: unit + ": " + action}, err
}
