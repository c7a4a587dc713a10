package systemd

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

// Bus is the system bus.
type Bus struct{}

// CodeUnavailable is the code if systemd does not answer.
const CodeUnavailable taskcatalog.Code = "systemd_unavailable"

// units calls do with a connection to systemd.
func units(ctx context.Context, do func(*dbus.Conn) error) error {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return taskcatalog.Errorf(CodeUnavailable, "cannot reach systemd over D-Bus: %v", err)
	}
	defer conn.Close()
	return do(conn)
}

// job calls a method that starts a job, and waits for the job's end.
func job(ctx context.Context, what, unit string, call func(*dbus.Conn, chan<- string) (int, error)) error {
	return units(ctx, func(conn *dbus.Conn) error {
		result := make(chan string, 1)
		if _, err := call(conn, result); err != nil {
			return fmt.Errorf("cannot %s %s: %w", what, unit, err)
		}
		select {
		case r := <-result:
			if r != "done" {
				return fmt.Errorf("cannot %s %s: the job is %s (systemctl status %s)", what, unit, r, unit)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("cannot %s %s: %w", what, unit, context.Cause(ctx))
		}
	})
}

// named reports whether err is a D-Bus error with one of these names.
func named(err error, names ...string) bool {
	var d godbus.Error
	if !errors.As(err, &d) {
		return false
	}
	for _, n := range names {
		if d.Name == n {
			return true
		}
	}
	return false
}

// Stop stops a unit and waits. A missing unit counts as stopped.
func (Bus) Stop(ctx context.Context, unit string) error {
	err := job(ctx, "stop", unit, func(c *dbus.Conn, ch chan<- string) (int, error) {
		return c.StopUnitContext(ctx, unit, "replace", ch)
	})
	if named(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return nil
	}
	return err
}

// Start starts a unit and waits.
func (Bus) Start(ctx context.Context, unit string) error {
	return job(ctx, "start", unit, func(c *dbus.Conn, ch chan<- string) (int, error) {
		return c.StartUnitContext(ctx, unit, "replace", ch)
	})
}

// Restart restarts a unit and waits. A unit that does not run is started.
func (Bus) Restart(ctx context.Context, unit string) error {
	return job(ctx, "restart", unit, func(c *dbus.Conn, ch chan<- string) (int, error) {
		return c.RestartUnitContext(ctx, unit, "replace", ch)
	})
}

// Active reports whether a unit is active, activating or reloading.
func (Bus) Active(ctx context.Context, unit string) (active bool, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetUnitPropertyContext(ctx, unit, "ActiveState")
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		state := strings.Trim(p.Value.String(), `"`)
		active = state == "active" || state == "activating" || state == "reloading"
		return nil
	})
	return active, err
}

// Reboot asks systemd to restart the machine, as systemctl reboot does, and does not wait.
func (Bus) Reboot(ctx context.Context) error {
	return units(ctx, func(c *dbus.Conn) error {
		if _, err := c.StartUnitContext(ctx, "reboot.target", "replace-irreversibly", nil); err != nil {
			return fmt.Errorf("cannot restart the machine: %w", err)
		}
		return nil
	})
}

// State returns what systemd says of a unit. A unit without a file is inactive.
func (Bus) State(ctx context.Context, unit string) (s host.UnitState, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetUnitPropertiesContext(ctx, unit)
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		s.Active, _ = p["ActiveState"].(string)
		s.Enabled, _ = p["UnitFileState"].(string)
		return nil
	})
	return s, err
}

// MainPID is the main process of a service; 0 if the service does not run or does not exist.
func (Bus) MainPID(ctx context.Context, unit string) (pid int, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetServicePropertyContext(ctx, unit, "MainPID")
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		main, ok := p.Value.Value().(uint32)
		if !ok {
			return fmt.Errorf("cannot look at %s: its main process is not a number", unit)
		}
		pid = int(main)
		return nil
	})
	return pid, err
}

// Reload makes systemd read its unit files again.
func (Bus) Reload(ctx context.Context) error {
	return units(ctx, func(c *dbus.Conn) error { return c.ReloadContext(ctx) })
}

// Enable enables a unit at boot.
func (Bus) Enable(ctx context.Context, unit string) error {
	return units(ctx, func(c *dbus.Conn) error {
		if _, _, err := c.EnableUnitFilesContext(ctx, []string{unit}, false, true); err != nil {
			return fmt.Errorf("cannot enable %s: %w", unit, err)
		}
		return nil
	})
}

// Files returns the unit file and its drop-ins, as systemd last read them.
func (Bus) Files(ctx context.Context, unit string) (file string, additions []string, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetUnitPropertiesContext(ctx, unit)
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		var one, many bool
		file, one = p["FragmentPath"].(string)
		additions, many = p["DropInPaths"].([]string)
		if !one || !many {
			return fmt.Errorf("cannot look at %s: systemd does not list the files of the unit", unit)
		}
		return nil
	})
	return file, additions, err
}

// LastRun describes the last run of a service in this boot, from leaving the inactive state to
// returning to it. The main program alone is not enough: if a command before it fails, the main
// program has not run.
func (Bus) LastRun(ctx context.Context, unit string) (run host.UnitRun, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetAllPropertiesContext(ctx, unit)
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		at := func(name string) time.Time {
			if us, _ := p[name].(uint64); us > 0 {
				return time.UnixMicro(int64(us))
			}
			return time.Time{}
		}
		run.StartedAt, run.FinishedAt = at("InactiveExitTimestamp"), at("InactiveEnterTimestamp")
		if run.FinishedAt.Before(run.StartedAt) {
			run.FinishedAt = time.Time{} // still running
		}
		run.Result, _ = p["Result"].(string)
		run.Oneshot = p["Type"] == "oneshot"
		status, _ := p["ExecMainStatus"].(int32)
		run.ExitStatus = cmp.Or(int(status), failedBefore(p["ExecStartPre"]))
		return nil
	})
	return run, err
}

// failedBefore is the first non-zero status of the commands, in systemd's form a(sasbttttuii), with
// the status last.
func failedBefore(commands any) int {
	list, _ := commands.([][]any)
	for _, command := range list {
		if len(command) == 0 {
			continue
		}
		if status, _ := command[len(command)-1].(int32); status != 0 {
			return int(status)
		}
	}
	return 0
}

// Disable disables a unit at boot.
func (Bus) Disable(ctx context.Context, unit string) error {
	return units(ctx, func(c *dbus.Conn) error {
		_, err := c.DisableUnitFilesContext(ctx, []string{unit}, false)
		return err
	})
}

// Run starts argv as a transient service that outlives the agent, and returns once systemd has
// accepted it.
func (Bus) Run(ctx context.Context, unit string, argv []string) error {
	return units(ctx, func(c *dbus.Conn) error {
		_, err := c.StartTransientUnitContext(ctx, unit, "fail", []dbus.Property{
			dbus.PropDescription("Hostler: " + argv[0]),
			dbus.PropExecStart(argv, true),
			{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
		}, nil)
		if named(err, "org.freedesktop.systemd1.UnitExists") {
			return nil // requested before a crash; already running
		}
		return err
	})
}

// Launch requests a unit's start and does not wait: the unit may never report READY.
func (Bus) Launch(ctx context.Context, unit string) error {
	return units(ctx, func(c *dbus.Conn) error {
		if _, err := c.StartUnitContext(ctx, unit, "replace", nil); err != nil {
			return fmt.Errorf("cannot start %s: %w", unit, err)
		}
		return nil
	})
}

// Look returns the present state of a service.
func (Bus) Look(ctx context.Context, unit string) (u selfupdate.Unit, err error) {
	err = units(ctx, func(c *dbus.Conn) error {
		p, err := c.GetAllPropertiesContext(ctx, unit) // all at once, to be consistent
		if err != nil {
			return fmt.Errorf("cannot look at %s: %w", unit, err)
		}
		u.Active, _ = p["ActiveState"].(string)
		u.Sub, _ = p["SubState"].(string)
		id, _ := p["InvocationID"].([]byte)
		u.Invocation = hex.EncodeToString(id)
		restarts, _ := p["NRestarts"].(uint32)
		u.Restarts = int(restarts)
		return nil
	})
	return u, err
}
