package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Updates is what an agent needs of the node to update itself.
type Updates struct {
	Store   *selfupdate.Store
	Systemd selfupdate.Systemd
	// Running is the slot of this program; Invocation is systemd's id of this start.
	Running, Invocation string
	// Test runs the self-test of another program: selfupdate.RunSelfTest.
	Test func(ctx context.Context, file string) (*selfupdate.SelfTest, error)
}

// updater joins Updates with this agent. It returns nil if Updates is nil.
func (a *Agent) updater() *selfupdate.Updater {
	u := a.Updates
	if u == nil {
		return nil
	}
	return &selfupdate.Updater{
		Stager: selfupdate.Stager{
			Store: u.Store, StateDir: a.File.StateDir, Parts: StateParts(a.Now), Test: u.Test, OS: runtime.GOOS, Arch: runtime.GOARCH,
			Progress: func(string, int, string) {},
			Keys:     func() release.Keys { return a.state.Member().Trust.ReleaseKeys(a.Now()) },
			Forms:    func() ([]int, error) { return a.forms() },
		},
		Systemd: u.Systemd, Log: a.Log, Running: u.Running, Version: a.Version, Contact: a.sinceContact, Broker: brokerPackages{a},
	}
}

// forms returns the forms of the state that another version must be able to read.
func (a *Agent) forms() ([]int, error) {
	form, err := a.ledger.Form()
	if err != nil {
		return nil, err
	}
	return FormsIn(a.File, form)
}

// FormsIn returns the forms of a node's state: the given form of its ledger, then the forms of its
// configuration, its identity and its update records.
func FormsIn(f File, ledger int) ([]int, error) {
	who, err := identity.FormIn(f.StateDir)
	if err != nil {
		return nil, err
	}
	updates, err := selfupdate.FormIn(f.StateDir)
	return []int{ledger, f.form(), who, updates}, err
}

// sinceContact is the time since the broker last answered this agent; negative: never.
func (a *Agent) sinceContact() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status.LastContact.IsZero() {
		return -1
	}
	return max(a.Now().Sub(a.status.LastContact), 0)
}

// brokerPackages is the broker's package endpoint as a source of releases.
type brokerPackages struct{ a *Agent }

func (b brokerPackages) Open(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
	client, err := b.a.uplink()
	if err != nil {
		return nil, err
	}
	body, err := client.Package(ctx, part.Digest, offset)
	if r, ok := uplink.RefusalOf(err); ok && r.Permanent() {
		return nil, taskcatalog.Errorf(selfupdate.CodeSourceRefused, "cannot fetch the release: the broker refuses: %v", r)
	}
	return body, err
}

// holdTime is how long an agent on trial holds polled tasks before it drops them. It is less than a
// lease.
const holdTime = wire.LeaseTime / 2

// confirmed marks contact and reports whether tasks may be taken. A version on trial takes no task
// before its watcher has confirmed it. The broker delivers tasks not taken again when their lease
// has run out.
func (a *Agent) confirmed(ctx context.Context) bool {
	if !a.onTrial() {
		return true
	}
	a.markContact()
	ctx, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	for a.onTrial() {
		if sleep(ctx, holdTime/100) != nil {
			a.resumeTrial(context.WithoutCancel(ctx))
			return false
		}
	}
	a.updateReport(nil)
	return true
}

// onTrial reports whether a switch is under way: a version is on trial and not confirmed, or is
// being reverted (see selfupdate's Store.Pending).
func (a *Agent) onTrial() bool { return a.Updates != nil && a.Updates.Store.Pending() }

// updateUnsettled reports whether a switch is under way or a version is in its proof. Its watcher
// must then see soon whether the version works.
func (a *Agent) updateUnsettled() bool { return a.Updates != nil && a.Updates.Store.Unsettled() }

// markContact records for the watcher that the broker has answered this start of the agent.
func (a *Agent) markContact() {
	if a.Updates == nil {
		return
	}
	if err := a.Updates.Store.MarkContact(a.Updates.Invocation, a.Version); err != nil {
		a.Log.Error("cannot mark contact with the broker", zap.Error(err))
	}
}

// markStart records for the watcher under which instance this start polls the broker.
func (a *Agent) markStart() {
	if a.Updates == nil {
		return
	}
	if err := a.Updates.Store.Began(a.Updates.Invocation, a.instance); err != nil {
		a.Log.Error("cannot record for the update's watcher which agent runs", zap.Error(err))
	}
}

// resumeTrial starts the watcher of a trial that may have no running watcher.
func (a *Agent) resumeTrial(ctx context.Context) {
	if a.host.Update == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := a.host.Update.ResumeTrial(ctx); err != nil {
		a.Log.Error("cannot start the watcher of an update", zap.Error(err))
	}
}

// build is the running program and the outcome of the last update.
func (c *Config) build() *taskcatalog.AgentBuild {
	b := c.Build
	if c.Updates != nil {
		if st, err := c.Updates.Store.Load(); err == nil {
			b.Delivery, b.Previous, b.Pins = st.Last(), st.Slots[st.PreviousSlot()].Version, nil
			for _, p := range st.Pins[max(len(st.Pins)-taskcatalog.MaxAgentPins, 0):] {
				b.Pins = append(b.Pins, taskcatalog.AgentPin{Version: p.Version, Reason: p.Reason})
			}
		}
	}
	if reflect.ValueOf(b).IsZero() {
		return nil
	}
	return &b
}

// StateParts are the parts of the state that the previous version must be able to read after a
// revert.
func StateParts(now func() time.Time) []selfupdate.Part {
	return []selfupdate.Part{
		{Name: "ledger", Files: []string{"ledger.db"}, Check: ledger.Check, ID: ledger.ID, Lost: ledger.RecordLoss},
		{Name: "identity", Files: []string{"identity.json", "rotate.json", "enroll.json", "*.key"}, Check: func(dir string) error {
			state, err := identity.Open(dir, now)
			if err != nil {
				return err
			}
			return errors.Join(state.Load(), state.Close())
		}},
	}
}

// ContactProbe returns a function that polls the broker for tasks as the node, as this version
// would, and returns true if the broker answered. A successful poll is the definition of contact: a
// broker that answers every request except the poll would answer the version on trial no better.
// The function takes no task. If the present identity is spoilt or refused, it asks with the
// identity saved before the switch, because the version on trial started with that identity. It
// asks under the watched agent's instance, so that no broker takes it for a second agent with this
// node's identity.
func ContactProbe(c Config) func(context.Context, string) bool {
	return func(ctx context.Context, instance string) bool {
		reached, refused := probeContact(ctx, c, c.StateDir, instance)
		before := selfupdate.BeforeDir(c.StateDir)
		if _, err := os.Stat(before); refused && err == nil {
			reached, _ = probeContact(ctx, c, before, instance)
		}
		return reached
	}
}

// probeContact polls with the identity in dir. refused is also true if the identity cannot be used.
func probeContact(ctx context.Context, c Config, dir, instance string) (reached, refused bool) {
	state, err := identity.Open(dir, c.Now)
	if err != nil {
		return false, true
	}
	defer func() { _ = state.Close() }()
	if state.Load() != nil || state.Member() == nil {
		return false, true
	}
	a := &Agent{Config: c, state: state, instance: instance}
	a.nodeReport.Store(&nodeReport{})
	client, err := a.uplinkAs(state.Member())
	if err != nil {
		return false, true
	}
	defer client.Close()
	err = client.PollOnce(ctx)
	return err == nil, refusedMember(err)
}
