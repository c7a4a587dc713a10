package tasks

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/erase"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// Host is everything a handler touches.
type Host struct {
	Machine *machine.Machine // "/" in the field
	Now     func() time.Time
	Rand    io.Reader
	Log     *zap.Logger
	Version string // of the agent

	Accounts Accounts
	Marks    Marks
	Systemd  Systemd
	// Trust takes a trust bundle's envelope into force if the trust key in
	// force signed it.
	Trust func(bundle string) (version int64, changed bool, err error)
	// Rotate gives the node another key, as this task asks, and goes on until it
	// has it or the broker says that it will not be. Rotated is what came of it, if
	// the present key is the one that this task brought.
	Rotate  func(ctx context.Context, taskID string) (*taskcatalog.RotateIdentityResult, error)
	Rotated func(taskID string) (*taskcatalog.RotateIdentityResult, bool)

	// Profiles are the node's resolver profiles, Commands runs what they name,
	// and Facts have the keys that their rules match on.
	Profiles *resolver.Store
	Commands *command.Runner
	Facts    func(ctx context.Context) (taskcatalog.Facts, error)
	// GPU asks GPUs, by way of child processes; nil where there is nothing to ask.
	GPU *gpu.Helper
	// Openers finds who has device files of GPUs open: gpu.Openers.
	Openers func(*machine.Machine) ([]gpu.Opener, error)
	Stopped scrub.Stopped // units that a scrub stopped
	// Memory is what diagnostics tell of the agent's ledger.
	Memory Memory
	// TaskStatus is what the agent knows of a task that it was given, and finds now.
	TaskStatus func(taskID string) (*taskcatalog.TaskProbeResult, error)
	// Overwrites are those of disks that were cut off.
	Overwrites erase.Overwrites

	// Update keeps the versions of the agent on this node; nil: it was not installed by
	// its package.
	Update *selfupdate.Updater

	// Terminals are the node's terminal sessions; nil: it can hold none.
	Terminals *unit.Sessions

	// Scratch are the node's own scratch path patterns, such as /share*.
	Scratch []string
	// ContainerRoots are emptied beside /var/lib/docker and
	// /var/lib/containerd; the map's value is the service to stop meanwhile.
	ContainerRoots map[string]string
	StateDir       string // /var/lib/hostler-agent
	ConfigDir      string // /etc/hostler-agent

	// FirstBoot reports whether all that a first boot changes is changed; nil: it is.
	FirstBoot func() bool

	// Settle is how long something new must stay before it counts as left
	// behind and not as a moment's work of the system: zero means 20 s.
	Settle time.Duration
}

// The uids of allocation users: above what login tools and 16-bit file systems
// use, below the first subordinate uid. They are given in order, each once. No account
// of the system or of a site has one.
const (
	FirstUID = 70_000
	LastUID  = 99_999
)

// tenantUID reports whether the uid is one that allocation users get.
func tenantUID(uid uint32) bool { return uid >= FirstUID && uid <= LastUID }

// Account is the user of an allocation.
type Account struct {
	AllocationID string    `json:"allocation_id"`
	Username     string    `json:"username"`
	UID          uint32    `json:"uid"`
	GID          uint32    `json:"gid"`
	Home         string    `json:"home"`
	Sudo         bool      `json:"sudo,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
}

// Accounts is the agent's crash-safe record of the allocation users it made.
// An account is put there before it is made and deleted after it is gone.
type Accounts interface {
	// NextUID gives a uid that it has never given before on this node, across
	// restarts and crashes.
	NextUID() (uint32, error)
	Put(Account) error
	ByAllocation(id string) (Account, bool, error)
	List() ([]Account, error)
	Delete(allocationID string) error
}

// Marks are the node's own lasting marks.
type Marks interface {
	Drained() bool
	SetDrained(bool) error
}

// Remembered is one task of the ledger, without what is in it.
type Remembered struct {
	TaskID     string              `json:"task_id"`
	Type       string              `json:"type"`
	Version    int                 `json:"version"`
	Attempt    int                 `json:"attempt"`
	State      string              `json:"state"`
	AcceptedAt time.Time           `json:"accepted_at"`
	StartedAt  time.Time           `json:"started_at,omitzero"`
	FinishedAt time.Time           `json:"finished_at,omitzero"`
	Outcome    taskcatalog.Outcome `json:"outcome,omitempty"`
	Code       taskcatalog.Code    `json:"code,omitempty"`
	Reported   bool                `json:"reported"`
}

// Memory is what the agent remembers, as far as others may see it.
type Memory interface {
	// Remembered are the tasks accepted last, the newest first, and how many more
	// there are.
	Remembered(most int) (tasks []Remembered, more int, err error)
	// Facts are those seen last, and whether there are any.
	Facts() (f taskcatalog.Facts, ok bool, err error)
}

// Systemd is what handlers ask of systemd and logind, over D-Bus.
type Systemd interface {
	// Stop and Start return when the job has ended; a unit that is not loaded
	// is no error for Stop.
	Stop(ctx context.Context, unit string) error
	Start(ctx context.Context, unit string) error
	// Active reports whether the unit is active or on its way to be.
	Active(ctx context.Context, unit string) (bool, error)
	// MainPID is the main process of a service; 0 where it does not run.
	MainPID(ctx context.Context, unit string) (int, error)
	Reload(ctx context.Context) error
	Enable(ctx context.Context, unit string) error
	Disable(ctx context.Context, unit string) error
	// Files are the file that systemd takes a unit from, "" where there is none,
	// and those that add to it.
	Files(ctx context.Context, unit string) (file string, additions []string, err error)
	// LastRun is how a service ran last in this boot.
	LastRun(ctx context.Context, unit string) (UnitRun, error)
	// Run starts argv as a transient service of its own, which outlives the
	// agent's, and does not wait for it.
	Run(ctx context.Context, unit string, argv []string) error
	// Sessions counts a user's logind sessions.
	Sessions(ctx context.Context, uid uint32) (int, error)
	// EndSessions ends them, and the user's manager with them.
	EndSessions(ctx context.Context, uid uint32) error
	// LingerOff turns lingering off for a user.
	LingerOff(ctx context.Context, uid uint32) error
}
