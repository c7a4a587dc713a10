package systemd

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hostler/hostler/agent/terminal/unit"
)

// How long a session's process may take to be ready, and to end before it is killed.
const (
	terminalReady = 30 * time.Second
	terminalStop  = 20 * time.Second
)

// How many tasks a session may have, and how many a user may have who is not root, in all: so
// a program that starts others without end leaves some to the process that holds it.
const (
	terminalTasks = 32768
	userTasks     = terminalTasks - 512
)

// StartTerminal starts a terminal session's unit and waits until it is ready.
func (Bus) StartTerminal(ctx context.Context, s unit.Spec) error {
	err := job(ctx, "start", s.Unit, func(c *dbus.Conn, ch chan<- string) (int, error) {
		return c.StartTransientUnitContext(ctx, s.Unit, "fail", terminalProperties(s), ch)
	})
	if named(err, "org.freedesktop.systemd1.UnitExists") {
		return unit.ErrExists
	}
	return err
}

// command is one of those that a service runs, as systemd takes it.
type command struct {
	Path          string
	Args          []string
	IgnoreFailure bool
}

// terminalProperties are all of a session's unit. What keeps a service from the machine is
// not among them: who is let in has the node as he would have it over ssh, his sudo too.
func terminalProperties(s unit.Spec) []dbus.Property {
	set := func(name string, value any) dbus.Property {
		return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
	}
	micros := func(d time.Duration) uint64 { return uint64(d / time.Microsecond) }
	return []dbus.Property{
		set("Description", s.Description),
		set("Type", "notify"),
		set("NotifyAccess", "main"),
		set("ExecStart", []command{{s.Start[0], s.Start, false}}),
		set("ExecStopPost", []command{{s.After[0], s.After, true}}),
		set("Slice", s.Slice),
		set("CollectMode", "inactive-or-failed"),
		// The process says good-bye and hangs its program up; whoever is left is told the
		// same, and killed after a while.
		set("KillMode", "control-group"),
		set("SendSIGHUP", true),
		set("TimeoutStartUSec", micros(terminalReady)),
		set("TimeoutStopUSec", micros(terminalStop)),
		set("RuntimeMaxUSec", micros(s.Longest)),
		set("RuntimeDirectory", []string{s.Directory}),
		set("RuntimeDirectoryMode", uint32(0o700)),
		set("TasksMax", uint64(terminalTasks)),
		set("LimitNPROC", uint64(userTasks)),
		set("LimitNPROCSoft", uint64(userTasks)),
		// A user's program that runs out of memory costs that program.
		set("OOMPolicy", "continue"),
		// No core of the process; a user may have those of his own programs.
		set("LimitCORE", uint64(math.MaxUint64)),
		set("LimitCORESoft", uint64(0)),
		set("IgnoreSIGPIPE", false),
		set("SyslogIdentifier", "hostler-terminal"),
		set("LogExtraFields", [][]byte{fmt.Appendf(nil, "HOSTLER_SESSION=%s", s.SessionID)}),
	}
}

// Terminals are the units of terminal sessions that are loaded.
func (Bus) Terminals(ctx context.Context) (all []unit.State, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		loaded, err := c.ListUnitsByPatternsContext(ctx, nil, []string{unit.Pattern})
		if err != nil {
			return fmt.Errorf("cannot list the terminal sessions: %w", err)
		}
		for _, u := range loaded {
			if unit.IsSession(u.Name) && u.LoadState != "not-found" {
				all = append(all, unit.State{Unit: u.Name, Description: u.Description, Active: u.ActiveState})
			}
		}
		return nil
	})
	return all, err
}
