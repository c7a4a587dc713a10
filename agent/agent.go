package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Config is an agent's wiring: the config file and everything replaced in tests.
type Config struct {
	File
	ConfigDir string // of the config file
	Version   string
	Hostname  string
	Machine   *machine.Machine
	Systemd   host.Systemd
	// Terminals holds the node's terminal sessions. Nil: the node can hold no session.
	Terminals *unit.Sessions
	Now       func() time.Time
	Rand      io.Reader
	Log       *zap.Logger
	Dial      uplink.DialFunc // nil: the network
	// Handlers finds the handler of a task type: tasks.Lookup.
	Handlers func(name string, version int) (tasks.Handler, bool)
	// Facts gathers the facts of the machine. Nil: no facts are reported.
	Facts func(context.Context) (taskcatalog.Facts, error)
	// GPU queries the GPUs. Nil: GPUs are not queried.
	GPU *gpu.Helper
	// Build describes the running program; Updates keeps the installed versions. Updates is nil if
	// the agent was not installed by its package.
	Build   taskcatalog.AgentBuild
	Updates *Updates
	// Notify sends a state to systemd: READY=1, STATUS=…, WATCHDOG=1.
	Notify   func(state string)
	Watchdog time.Duration // systemd's watchdog interval; zero: no watchdog
}

// Agent is the agent of a single node.
type Agent struct {
	Config
	state      *identity.State
	ledger     *ledger.Ledger
	inbox      *inbox.Inbox
	host       *host.Host
	nodeReport atomic.Pointer[nodeReport] // the node's report about itself
	reportMu   sync.Mutex                 // serialises changes of nodeReport
	bootID     string
	// instance identifies this process: the broker uses it to tell apart two processes with the
	// same identity.
	instance string
	lanes    *lanes

	mu       sync.Mutex
	client   *uplink.Client
	clientOf *identity.Member
	running  map[string]*run
	refusals map[string]wire.ResultRequest // refusals not recorded in the ledger, until sent; by task id
	status   Status

	work    sync.WaitGroup    // running tasks
	results chan struct{}     // a result waits to be sent
	freed   chan struct{}     // a lane is free again
	turns   atomic.Int64      // turns of the main loop
	renewAt time.Time         // owned by the main loop
	planned *x509.Certificate // the certificate that renewAt belongs to; owned by the main loop
	carried *wire.CarriedTask // task carried by the enrolment's answer; owned by the main loop
	fatal   context.CancelCauseFunc
	working context.Context // context of running tasks; set by Run
	ending  atomic.Bool     // the agent was uninstalled: no more tasks are accepted
	// at is called at the boundaries of a task. The crash tests end the process there.
	at func(boundary, taskID string)
}

// stopGrace is how long a task has to stop after its deadline, its cancel or the agent's stop.
const stopGrace = 20 * time.Second

// New opens the state directory and the ledger. New sends nothing and changes nothing else on the
// machine.
func New(c Config) (*Agent, error) {
	a := &Agent{
		Config: c, lanes: newLanes(), running: map[string]*run{}, refusals: map[string]wire.ResultRequest{},
		results: make(chan struct{}, 1), freed: make(chan struct{}, 1), at: func(string, string) {},
	}
	var err error
	if a.bootID, err = c.Machine.BootID(); err != nil {
		return nil, fmt.Errorf("cannot read the boot id: %w", err)
	}
	if a.instance, err = wire.NewInstance(c.Rand); err != nil {
		return nil, err
	}
	if a.state, err = identity.Open(c.StateDir, c.Now); err != nil {
		return nil, err
	}
	if a.ledger, err = ledger.Open(c.StateDir); err != nil {
		_ = a.state.Close()
		return nil, err
	}
	if !a.ledger.Reserved {
		c.Log.Warn("cannot reserve space for the ledger: if the file system fills up, this node takes no tasks")
	}
	runner, err := command.New(c.Machine.Dir(), c.Now)
	if err != nil {
		return nil, errors.Join(err, a.ledger.Close(), a.state.Close())
	}
	a.host = &host.Host{
		Machine: c.Machine, Now: c.Now, Rand: c.Rand, Log: c.Log, Version: c.Version,
		Accounts: a.ledger.Accounts(), Marks: a.ledger, Systemd: c.Systemd, Trust: a.acceptTrust, Rotate: a.rotateIdentity,
		Rotated:  a.rotated,
		Profiles: resolver.Open(filepath.Join(c.StateDir, "profiles")), Commands: runner, Facts: a.facts,
		GPU: c.GPU, Openers: gpu.Openers, Stopped: a.ledger, Overwrites: a.ledger, Operations: a.ledger, Ledger: a.ledger,
		TaskStatus: a.taskStatus,
		Scratch:    c.Scratch, ContainerRoots: c.ContainerRoots, StateDir: c.StateDir, ConfigDir: c.ConfigDir,
		Terminals: c.Terminals,
		FirstBoot: func() bool { return !a.state.FirstBootDue() },
	}
	a.host.Update = a.updater()
	a.host.Downloads = download.New(a.brokerAddresses)
	profiles := a.host.Profiles
	if err := profiles.Damaged(); err != nil {
		c.Log.Error("cannot use the node's resolver profiles; the compiled-in profiles are in force", zap.Error(err))
	}
	c.Log.Info("resolver profiles in force", zap.String("version", profiles.InForce().Version),
		zap.String("digest", profiles.InForce().Digest()))
	a.setReport(c.report(nil))
	a.inbox = &inbox.Inbox{
		Now:   c.Now,
		Self:  func() pki.NodeIdentity { return a.state.Member().NodeIdentity },
		Trust: func() *pki.TrustBundle { return a.state.Member().Trust },
		Known: a.known,
		Handles: func(typ taskcatalog.Type) bool {
			_, ok := c.Handlers(typ.Name, typ.Version)
			return ok
		},
		Allow: c.Allow, Capabilities: func() map[string]string { return a.nodeReport.Load().report.Capabilities },
		Allocations: a.allocations,
	}
	a.status = Status{Version: c.Version, PID: os.Getpid(), Allow: string(c.Allow), Phase: PhaseStarting}
	return a, nil
}

// Close closes the state and the ledger. Call Close after Run has returned.
func (a *Agent) Close() error {
	a.mu.Lock()
	if a.client != nil {
		a.client.Close()
	}
	a.mu.Unlock()
	return errors.Join(a.host.Commands.Close(), a.ledger.Close(), a.state.Close())
}

// facts returns the machine's present facts, or empty facts if Config.Facts is nil.
func (a *Agent) facts(ctx context.Context) (taskcatalog.Facts, error) {
	if a.Facts == nil {
		return taskcatalog.Facts{}, nil
	}
	return a.Facts(ctx)
}

// Run serves until ctx ends, which is no error, or until a task does not stop when it must. In the
// second case Run returns an error, because only a new process can report the task's outcome
// truthfully.
func (a *Agent) Run(ctx context.Context) error {
	ctx, a.fatal = context.WithCancelCause(ctx)
	defer a.fatal(nil)
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	a.working = work

	// The state is loaded before the loops start, because several loops use the node's identity,
	// and before READY=1: an agent that cannot load its identity does not work, and another version
	// of the agent might.
	if err := a.state.Load(); err != nil {
		return err
	}
	a.Notify("READY=1")
	a.publish(func(*Status) {})
	a.putBack(ctx, putBackTime)
	a.markStart()
	a.resumeTrial(ctx)
	a.gatherFacts(ctx)
	g, loops := errgroup.WithContext(ctx)
	g.Go(func() error { return a.serve(loops, work) })
	g.Go(func() error { return a.sendResults(loops) })
	g.Go(func() error { return a.maintain(loops) })
	g.Go(func() error { return a.watch(loops) })
	g.Go(func() error { return a.firstBoot(loops) })
	err := g.Wait()

	a.Notify("STOPPING=1")
	stop(host.ErrStopping)
	a.awaitWork(stopGrace)
	// Send the results of the tasks that just ended, once; the next start sends the rest.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = a.sendAll(last)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (a *Agent) awaitWork(grace time.Duration) {
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		a.Log.Error("tasks did not stop in time; the next start reports them as interrupted")
	}
}

// putBackTime limits the restart of stopped units when the agent starts. The watchdog gets no
// signal yet, and a hanging unit must not keep the node from its broker.
const putBackTime = 20 * time.Second

// putBackLater is the same limit once the agent is up: without a driver kept loaded, eight GPUs
// take a minute to come up.
const putBackLater = 2 * time.Minute

// putBack finishes the restore of an interrupted scrub: it starts the units that the scrub had
// stopped and switches on the GPU settings that the scrub had switched off, before the agent or the
// machine went down.
func (a *Agent) putBack(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, unit := range scrub.PutBack(ctx, a.ledger, a.Systemd, a.GPU) {
		a.Log.Warn("a scrub stopped services or switched off settings and did not restore them", zap.String("unit", unit.Unit),
			zap.Bool("put_back", unit.PutBack), zap.String("message", unit.Message))
	}
}

// maintain drops old ledger entries, ends accepted tasks that can no longer start, retries failed
// writes of the identity, and retries the restore after an interrupted scrub (putBack).
func (a *Agent) maintain(ctx context.Context) error {
	for {
		if n, err := a.ledger.Drop(a.Now()); err != nil {
			a.Log.Error("cannot drop old tasks from the ledger", zap.Error(err))
		} else if n > 0 {
			a.Log.Info("dropped old tasks from the ledger", zap.Int("tasks", n))
		}
		a.expireAccepted()
		if err := a.state.Flush(); err != nil {
			a.Log.Error("cannot write the node's identity yet", zap.Error(err))
		}
		if err := sleep(ctx, 10*time.Minute); err != nil {
			return err
		}
		// Units that would not start are tried again, but never during a scrub that stopped them.
		if a.lanes.try(taskcatalog.LaneExclusive) {
			a.putBack(ctx, putBackLater)
			a.lanes.leave(taskcatalog.LaneExclusive)
		}
	}
}

// watch signals systemd's watchdog while the main loop turns. It adds up its own pauses instead of
// reading the clock, because a clock step is no hang.
func (a *Agent) watch(ctx context.Context) error {
	if a.Watchdog <= 0 {
		return nil
	}
	pause, still := a.Watchdog/2, time.Duration(0)
	for last := int64(-1); ; {
		turns := a.turns.Load()
		if turns != last {
			last, still = turns, 0
		}
		if still < a.stallLimit() {
			a.Notify("WATCHDOG=1")
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		still += pause
	}
}

// stallLimit is how long the main loop may stand still before the watchdog signal stops. For a
// version that is on trial or in its proof the limit is short enough that systemd ends a hung
// process within the proof, where the watcher counts the restart. The limit is longer than a pause,
// and longer than a turn in which every request times out.
func (a *Agent) stallLimit() time.Duration {
	if a.updateUnsettled() {
		return 2 * trialPause
	}
	return 2 * uplink.MaxPause
}

func (a *Agent) allocations() ([]string, error) {
	accounts, err := a.ledger.Accounts().List()
	ids := make([]string, len(accounts))
	for i, account := range accounts {
		ids[i] = account.AllocationID
	}
	return ids, err
}

func (a *Agent) acceptTrust(bundle string) (int64, bool, error) {
	version, changed, err := a.state.AcceptTrust(bundle)
	if changed {
		a.Log.Info("trust bundle in force", zap.Int64("version", version))
	}
	return version, changed, err
}

// wake signals a loop without blocking.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for d. It returns early with the context's error if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
