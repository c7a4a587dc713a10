package host

import (
	"context"
	"time"
)

// Systemd is what handlers ask of systemd and logind, over D-Bus.
type Systemd interface {
	// Stop and Start return when systemd's job has ended. Stop succeeds for a unit that is
	// not loaded.
	Stop(ctx context.Context, unit string) error
	Start(ctx context.Context, unit string) error
	// Restart starts a unit that does not run.
	Restart(ctx context.Context, unit string) error
	// Reboot asks for a restart of the machine, and does not wait.
	Reboot(ctx context.Context) error
	// State returns what systemd says of a unit, in systemd's words.
	State(ctx context.Context, unit string) (UnitState, error)
	// Active reports whether the unit is active or activating.
	Active(ctx context.Context, unit string) (bool, error)
	// MainPID returns the main process of a service; 0: the service does not run.
	MainPID(ctx context.Context, unit string) (int, error)
	Reload(ctx context.Context) error
	Enable(ctx context.Context, unit string) error
	Disable(ctx context.Context, unit string) error
	// Files returns the file that defines the unit, "" if there is none, and its drop-ins.
	Files(ctx context.Context, unit string) (file string, additions []string, err error)
	// LastRun returns the service's last run in this boot.
	LastRun(ctx context.Context, unit string) (UnitRun, error)
	// Run starts argv as a transient service and does not wait. The service outlives the agent's
	// own service.
	Run(ctx context.Context, unit string, argv []string) error
	// Finish runs a program as a transient service and returns its exit status when it has ended. It
	// is not bound by what the agent's own service may do, and outlives the agent. If ctx ends first,
	// the service is stopped.
	Finish(ctx context.Context, s Service) (exit int, err error)
	// Sessions counts a user's logind sessions.
	Sessions(ctx context.Context, uid uint32) (int, error)
	// EndSessions ends a user's sessions and the user's service manager.
	EndSessions(ctx context.Context, uid uint32) error
	// LingerOff turns lingering off for a user.
	LingerOff(ctx context.Context, uid uint32) error
}

// UnitState is the state of a unit.
type UnitState struct {
	Active  string // active, inactive, failed, activating …
	Enabled string // enabled, disabled, static …; empty: the unit has no file
}

// UnitRun is the last run of a service.
type UnitRun struct {
	StartedAt, FinishedAt time.Time // zero: not in this boot
	ExitStatus            int
	Result                string // systemd's word: success, exit-code, timeout …
	Oneshot               bool   // the unit's type: its start ends when its program has ended
}

// Service is a program that runs as a transient service.
type Service struct {
	Unit    string
	Argv    []string
	Env     []string // the whole environment, beside systemd's own variables
	Output  string   // the file that gets what it prints, in place of an earlier content
	Timeout time.Duration
	Offline bool // without a network, and with a /tmp of its own
}
