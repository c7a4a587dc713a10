package host

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/erase"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// Host is everything that a handler may touch. Tests replace its parts.
type Host struct {
	Machine *machine.Machine // "/" in the field
	Now     func() time.Time
	Rand    io.Reader
	Log     *zap.Logger
	Version string // of the agent

	Accounts Accounts
	Marks    Marks
	Systemd  Systemd
	// Trust puts the envelope of a trust bundle into force if the present trust key
	// signed it.
	Trust func(bundle string) (version int64, changed bool, err error)
	// Rotate gives the node another key. It tries until the broker accepts or refuses the
	// key. Rotated returns the result if the present key came from this task.
	Rotate  func(ctx context.Context, taskID string) (*taskcatalog.RotateIdentityResult, error)
	Rotated func(taskID string) (*taskcatalog.RotateIdentityResult, bool)

	// Profiles are the node's resolver profiles, Commands runs the profiles' commands, and Facts
	// returns the facts that the profiles' rules match on.
	Profiles *resolver.Store
	Commands *command.Runner
	Facts    func(ctx context.Context) (taskcatalog.Facts, error)
	// GPU asks GPUs through child processes; nil: no GPU can be asked.
	GPU *gpu.Helper
	// Openers finds the processes that have device files of GPUs open: gpu.Openers.
	Openers func(*machine.Machine) ([]gpu.Opener, error)
	Stopped scrub.Stopped // units that a scrub stopped
	// Ledger is the part of the agent's ledger that diagnostics may show.
	Ledger LedgerView
	// TaskStatus returns the recorded state of an accepted task and the present finding of the
	// task's probe.
	TaskStatus func(taskID string) (*taskcatalog.TaskProbeResult, error)
	// Overwrites are the overwrites of disks that a crash cut off.
	Overwrites erase.Overwrites
	// Operations is the journal of operations.
	Operations Operations

	// Update keeps the versions of the agent on this node; nil: the agent was not
	// installed from its package.
	Update *selfupdate.Updater

	// Downloads sends requests to sources of artifacts; nil: nothing is pulled here.
	Downloads *download.Client

	// Terminals are the node's terminal sessions; nil: the node holds no sessions.
	Terminals *unit.Sessions

	// Scratch are the node's own scratch path patterns, such as /share*.
	Scratch []string
	// ContainerRoots are directories to empty beside /var/lib/docker and
	// /var/lib/containerd, each with the service to stop meanwhile.
	ContainerRoots map[string]string
	StateDir       string // /var/lib/hostler-agent
	ConfigDir      string // /etc/hostler-agent

	// FirstBoot reports whether the first boot has made all its changes; nil means yes.
	FirstBoot func() bool

	// Settle is how long a new thing must stay to count as left behind and not as momentary work of
	// the system; zero: 20 s.
	Settle time.Duration
}

// Marks are the node's own lasting marks.
type Marks interface {
	Drained() bool
	SetDrained(bool) error
}

// EndTerminals ends the sessions of a user, or of everybody for "".
func (h *Host) EndTerminals(ctx context.Context, user string) (int, error) {
	if h.Terminals == nil {
		return 0, nil
	}
	return h.Terminals.EndUser(ctx, user)
}
