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

// The limits for a session's process to become ready, and to end before it is killed.
const (
	terminalReady = 30 * time.Second
	terminalStop  = 20 * time.Second
)

// The limits of tasks in a session, and of tasks of a user without root in total: a program that
// forks without end leaves some tasks to the process that holds it.
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

// command is a service's command, in systemd's form.
type command struct {
	Path          string
	Args          []string
	IgnoreFailure bool
}

// terminalProperties are all properties of a session's unit. Sandboxing is left out on purpose: the
// user has the same access to the node as over ssh, including sudo.
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
		// The process sends its last frame and hangs its program up; remaining processes get the
		// same signals, and are killed after a while.
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
		// A user's program that runs out of memory ends only this program.
		set("OOMPolicy", "continue"),
		// No core dump of the process; a user may enable dumps of own programs.
		set("LimitCORE", uint64(math.MaxUint64)),
		set("LimitCORESoft", uint64(0)),
		set("IgnoreSIGPIPE", false),
		set("SyslogIdentifier", "hostler-terminal"),
		set("LogExtraFields", [][]byte{fmt.Appendf(nil, "HOSTLER_SESSION=%s", s.SessionID)}),
	}
}

// Terminals are the loaded units of terminal sessions.
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
