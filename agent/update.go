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

// Updates is what of the node an agent needs to update itself.
type Updates struct {
	Store   *selfupdate.Store
	Systemd selfupdate.Systemd
	// Running is the slot of this program, and Invocation what systemd calls this start
	// of it.
	Running, Invocation string
	// Test has another program test itself: selfupdate.RunSelfTest.
	Test func(ctx context.Context, file string) (*selfupdate.SelfTest, error)
}

// updater joins them with this agent; nil where there are none.
func (a *Agent) updater() *selfupdate.Updater {
	u := a.Updates
	if u == nil {
		return nil
	}
	return &selfupdate.Updater{
		Stager: selfupdate.Stager{
			Store: u.Store, StateDir: a.File.StateDir, Parts: StateParts(a.Now), Test: u.Test, OS: runtime.GOOS, Arch: runtime.GOARCH, Progress: func(string, int, string) {},
			Keys:  func() release.Keys { return a.state.Member().Trust.ReleaseKeys(a.Now()) },
			Forms: func() ([]int, error) { return a.forms() },
		},
		Systemd: u.Systemd, Log: a.Log, Running: u.Running, Version: a.Version, Contact: a.sinceContact, Broker: brokerPackages{a},
	}
}

// forms are those of the state that another version has to read.
func (a *Agent) forms() ([]int, error) {
	form, err := a.ledger.Form()
	if err != nil {
		return nil, err
	}
	return FormsIn(a.File, form)
}

// FormsIn are those of a node's state, beside its ledger's: of its configuration, its
// identity, and of what is written down of updates.
func FormsIn(f File, ledger int) ([]int, error) {
	who, err := identity.FormIn(f.StateDir)
	if err != nil {
		return nil, err
	}
	updates, err := selfupdate.FormIn(f.StateDir)
	return []int{ledger, f.form(), who, updates}, err
}

// sinceContact is how long ago the broker answered this agent; negative: never.
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
	if r, ok := uplink.RefusalOf(err); ok && r.Lasting() {
		return nil, taskcatalog.Errorf(selfupdate.CodeSourceRefused, "cannot fetch the release: the broker refuses: %v", r)
	}
	return body, err
}

// holdTime is how long an agent on trial keeps what a poll has brought before it lets
// it go. It is less than a lease.
const holdTime = wire.LeaseTime / 2

// confirmed marks contact and reports whether tasks may be taken: by a version on trial
// not before the watcher has confirmed it. What is not taken is delivered again when
// its lease has run out.
func (a *Agent) confirmed(ctx context.Context) bool {
	if !a.onTrial() {
		return true
	}
	a.markContact()
	ctx, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	for a.onTrial() {
		if sleep(ctx, holdTime/100) != nil {
			a.goOnUpdating(context.WithoutCancel(ctx))
			return false
		}
	}
	a.tell(nil)
	return true
}

// onTrial reports whether a version is being tried: this one, or it is being put back.
func (a *Agent) onTrial() bool { return a.Updates != nil && a.Updates.Store.Pending() }

// tried reports whether a version is on trial or proves itself: its watcher is to see soon
// whether it works.
func (a *Agent) tried() bool { return a.Updates != nil && a.Updates.Store.Tried() }

// markContact tells the watcher that the broker has answered this start of the agent.
func (a *Agent) markContact() {
	if a.Updates == nil {
		return
	}
	if err := a.Updates.Store.MarkContact(a.Updates.Invocation, a.Version); err != nil {
		a.Log.Error("cannot mark contact with the broker", zap.Error(err))
	}
}

// markStart tells the watcher as whom this start of the agent asks the broker.
func (a *Agent) markStart() {
	if a.Updates == nil {
		return
	}
	if err := a.Updates.Store.Began(a.Updates.Invocation, a.instance); err != nil {
		a.Log.Error("cannot tell the watcher of an update which agent runs", zap.Error(err))
	}
}

// goOnUpdating has a trial watched that nobody may be watching.
func (a *Agent) goOnUpdating(ctx context.Context) {
	if a.host.Update == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := a.host.Update.GoOn(ctx); err != nil {
		a.Log.Error("cannot start the watcher of an update", zap.Error(err))
	}
}

// build is the program that runs, and what became of the last update.
func (c *Config) build() *taskcatalog.AgentBuild {
	b := c.Build
	if c.Updates != nil {
		if st, err := c.Updates.Store.Load(); err == nil {
			b.Delivery, b.Previous, b.Pins = st.Last(), st.Slots[st.Before()].Version, nil
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

// StateParts are the parts of the state that a version gone back to must read.
func StateParts(now func() time.Time) []selfupdate.Part {
	return []selfupdate.Part{
		{Name: "ledger", Files: []string{"ledger.db"}, Check: ledger.Check, ID: ledger.ID, Lost: ledger.Lost},
		{Name: "identity", Files: []string{"identity.json", "rotate.json", "enroll.json", "*.key"}, Check: func(dir string) error {
			state, err := identity.Open(dir, now)
			if err != nil {
				return err
			}
			return errors.Join(state.Load(), state.Close())
		}},
	}
}

// Reacher asks the broker for tasks as the node, as this version would, and reports
// whether it answered: that is what contact means, and a broker that answers everything
// but this would answer the version on trial no better. It takes none. Where the identity
// is spoilt or refused now, it asks with the one of before the switch: that is what the
// version on trial was given. It asks as the agent that it asks for, so that no broker
// takes it for another one with this node's identity.
func Reacher(c Config) func(context.Context, string) bool {
	return func(ctx context.Context, instance string) bool {
		reached, refused := reach(ctx, c, c.StateDir, instance)
		before := selfupdate.Before(c.StateDir)
		if _, err := os.Stat(before); refused && err == nil {
			reached, _ = reach(ctx, c, before, instance)
		}
		return reached
	}
}

// reach asks with the identity in a folder. It is refused, too, where it cannot be used.
func reach(ctx context.Context, c Config, dir, instance string) (reached, refused bool) {
	state, err := identity.Open(dir, c.Now)
	if err != nil {
		return false, true
	}
	defer func() { _ = state.Close() }()
	if state.Load() != nil || state.Member() == nil {
		return false, true
	}
	a := &Agent{Config: c, state: state, instance: instance}
	a.self.Store(&self{})
	client, err := a.uplinkAs(state.Member())
	if err != nil {
		return false, true
	}
	defer client.Close()
	err = client.Asks(ctx)
	return err == nil, refusedMember(err)
}
