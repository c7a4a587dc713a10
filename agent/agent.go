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
	"github.com/hostler/hostler/agent/gpu"
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

// Config is an agent's wiring: the config file and everything that tests
// replace.
type Config struct {
	File
	ConfigDir string // of the config file
	Version   string
	Hostname  string
	Machine   *machine.Machine
	Systemd   tasks.Systemd
	// Terminals holds the node's terminal sessions. Nil: it can hold none.
	Terminals *unit.Sessions
	Now       func() time.Time
	Rand      io.Reader
	Log       *zap.Logger
	Dial      uplink.DialFunc // nil: the network
	// Handlers finds what carries a task type out: tasks.Lookup.
	Handlers func(name string, version int) (tasks.Handler, bool)
	// Facts looks at the machine. Nil: there is nothing to say.
	Facts func(context.Context) (taskcatalog.Facts, error)
	// GPU asks GPUs. Nil: there is nothing to ask.
	GPU *gpu.Helper
	// Build is the program that runs, and Updates keeps its versions. Nil: the agent was
	// not installed by its package.
	Build   taskcatalog.AgentBuild
	Updates *Updates
	// Notify tells systemd: READY=1, STATUS=…, WATCHDOG=1.
	Notify   func(state string)
	Watchdog time.Duration // how often systemd wants to hear; zero: never
}

// Agent is one node's agent.
type Agent struct {
	Config
	state   *identity.State
	ledger  *ledger.Ledger
	inbox   *inbox.Inbox
	host    *tasks.Host
	self    atomic.Pointer[self] // what the node says of itself
	telling sync.Mutex           // one word of it after the other
	bootID  string
	// instance is this process: the broker tells two of one identity apart by it.
	instance string
	lanes    *lanes

	mu       sync.Mutex
	client   *uplink.Client
	clientOf *identity.Member
	running  map[string]*run
	refusals map[string]wire.ResultRequest // of envelopes not worth recording, until sent
	status   Status

	work    sync.WaitGroup    // running tasks
	results chan struct{}     // a result waits to be sent
	freed   chan struct{}     // a lane has room again
	turns   atomic.Int64      // of the main loop
	renewAt time.Time         // owned by the main loop
	planned *x509.Certificate // that renewAt is for; owned by the main loop
	carried *wire.CarriedTask // came with the enrolment; owned by the main loop
	fatal   context.CancelCauseFunc
	working context.Context // of running tasks; set by Run
	ending  atomic.Bool     // uninstalled: nothing more is taken
	// at is called where a crash would matter most: the crash sweep dies there.
	at func(boundary, taskID string)
}

// errStopping is why work ends when the agent is asked to stop.
var errStopping = errors.New("the agent was stopped")

// stopGrace is how long a task has to stop after its deadline, its cancel or the
// agent's end.
const stopGrace = 20 * time.Second

// New opens the state directory and the ledger. Nothing is sent and nothing on
// the machine is changed beyond them.
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
		c.Log.Warn("the ledger's space could not be reserved: a full file system may keep this node from taking tasks")
	}
	runner, err := command.New(c.Machine.Dir(), c.Now)
	if err != nil {
		return nil, errors.Join(err, a.ledger.Close(), a.state.Close())
	}
	a.host = &tasks.Host{
		Machine: c.Machine, Now: c.Now, Rand: c.Rand, Log: c.Log, Version: c.Version,
		Accounts: a.ledger.Accounts(), Marks: a.ledger, Systemd: c.Systemd, Trust: a.acceptTrust, Rotate: a.rotateIdentity, Rotated: a.rotated,
		Profiles: resolver.Open(filepath.Join(c.StateDir, "profiles")), Commands: runner, Facts: a.facts,
		GPU: c.GPU, Openers: gpu.Openers, Stopped: a.ledger, Overwrites: a.ledger, Memory: a.ledger, TaskStatus: a.taskStatus,
		Scratch: c.Scratch, ContainerRoots: c.ContainerRoots, StateDir: c.StateDir, ConfigDir: c.ConfigDir,
		Terminals: c.Terminals,
		FirstBoot: func() bool { return !a.state.FirstBootDue() },
	}
	a.host.Update = a.updater()
	profiles := a.host.Profiles
	if err := profiles.Damaged(); err != nil {
		c.Log.Error("the node's resolver profiles are not in force; the compiled-in ones are", zap.Error(err))
	}
	c.Log.Info("resolver profiles in force", zap.String("version", profiles.InForce().Version), zap.String("digest", profiles.InForce().Digest()))
	a.say(c.report(nil))
	a.inbox = &inbox.Inbox{
		Now:   c.Now,
		Self:  func() pki.NodeIdentity { return a.state.Member().NodeIdentity },
		Trust: func() *pki.TrustBundle { return a.state.Member().Trust },
		Known: a.known,
		Handles: func(typ taskcatalog.Type) bool {
			_, ok := c.Handlers(typ.Name, typ.Version)
			return ok
		},
		Allow: c.Allow, Capabilities: func() map[string]string { return a.self.Load().report.Capabilities }, Allocations: a.allocations,
	}
	a.status = Status{Version: c.Version, PID: os.Getpid(), Allow: string(c.Allow), Phase: PhaseStarting}
	return a, nil
}

// Close gives state and ledger back. Call it after Run has returned.
func (a *Agent) Close() error {
	a.mu.Lock()
	if a.client != nil {
		a.client.Close()
	}
	a.mu.Unlock()
	return errors.Join(a.host.Commands.Close(), a.ledger.Close(), a.state.Close())
}

// facts are this machine's now; where nobody can look there are none.
func (a *Agent) facts(ctx context.Context) (taskcatalog.Facts, error) {
	if a.Facts == nil {
		return taskcatalog.Facts{}, nil
	}
	return a.Facts(ctx)
}

// Run serves until ctx ends, which is no error, or until a task does not stop
// when it must: only a new process can then say truly what became of it.
func (a *Agent) Run(ctx context.Context) error {
	ctx, a.fatal = context.WithCancelCause(ctx)
	defer a.fatal(nil)
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	a.working = work

	// Before the loops: more than one of them speaks for the node. And before it is ready: an
	// agent that cannot tell who the node is does not work, and another version might.
	if err := a.state.Load(); err != nil {
		return err
	}
	a.Notify("READY=1")
	a.publish(func(*Status) {})
	a.putBack(ctx, putBackTime)
	a.markStart()
	a.goOnUpdating(ctx)
	a.look(ctx)
	g, loops := errgroup.WithContext(ctx)
	g.Go(func() error { return a.serve(loops, work) })
	g.Go(func() error { return a.sendResults(loops) })
	g.Go(func() error { return a.keepHouse(loops) })
	g.Go(func() error { return a.watch(loops) })
	g.Go(func() error { return a.firstBoot(loops) })
	err := g.Wait()

	a.Notify("STOPPING=1")
	stop(errStopping)
	a.awaitWork(stopGrace)
	// What ended just now is worth one try; the next start sends the rest.
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

// putBackTime is how long the start of what was stopped may take. No watchdog is
// told anything yet, and a unit that hangs must not keep the node from its broker.
const putBackTime = 20 * time.Second

// putBackLater is the same limit once the agent is up: a driver that nobody kept loaded
// takes a minute to bring eight GPUs up.
const putBackLater = 2 * time.Minute

// putBack starts what a scrub had stopped, and switches on what it had switched off,
// when this agent, or the machine, went down.
func (a *Agent) putBack(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, unit := range scrub.PutBack(ctx, a.ledger, a.Systemd, a.GPU) {
		a.Log.Warn("a scrub did not get to put back what it had stopped or switched off", zap.String("unit", unit.Unit), zap.Bool("put_back", unit.PutBack), zap.String("message", unit.Message))
	}
}

// keepHouse forgets what is needed no more and writes what could not be written.
func (a *Agent) keepHouse(ctx context.Context) error {
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
		// What would not start is tried again, and never under a scrub that stopped it.
		if a.lanes.try(taskcatalog.LaneExclusive) {
			a.putBack(ctx, putBackLater)
			a.lanes.leave(taskcatalog.LaneExclusive)
		}
	}
}

// watch tells systemd that the main loop turns. It counts its own pauses and
// asks no clock: one that is set anew in the middle is no hang.
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
		if still < a.patience() {
			a.Notify("WATCHDOG=1")
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		still += pause
	}
}

// patience is for how long the main loop may stand still and systemd still hears that the
// agent is alive. Of a version that is being tried or proved that ends early enough for
// systemd to end it within the proof, where its watcher counts that: it is more than a
// pause, and than a turn in which every request is waited for in vain.
func (a *Agent) patience() time.Duration {
	if a.tried() {
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

// wake makes a loop look, without waiting for it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits, or returns early with why the context ended.
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
