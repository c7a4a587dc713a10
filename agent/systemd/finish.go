package systemd

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hostler/hostler/agent/host"
)

// stopPatience bounds how long a service that is no longer wanted may take to end.
const stopPatience = 2 * time.Minute

// Finish runs a program as a transient service to its end.
func (b Bus) Finish(ctx context.Context, s host.Service) (exit int, err error) {
	properties := []dbus.Property{
		dbus.PropDescription("Hostler: " + s.Argv[0]),
		dbus.PropExecStart(s.Argv, false),
		dbus.PropType("oneshot"),
		{Name: "Environment", Value: godbus.MakeVariant(s.Env)},
		{Name: "StandardInput", Value: godbus.MakeVariant("null")},
		{Name: "StandardOutputFileToTruncate", Value: godbus.MakeVariant(s.Output)},
		{Name: "StandardError", Value: godbus.MakeVariant("inherit")},
		{Name: "TimeoutStartUSec", Value: godbus.MakeVariant(uint64(s.Timeout.Microseconds()))},
	}
	if s.Offline {
		properties = append(properties, dbus.Property{Name: "PrivateNetwork", Value: godbus.MakeVariant(true)},
			dbus.Property{Name: "PrivateTmp", Value: godbus.MakeVariant(true)})
	}
	err = units(ctx, func(c *dbus.Conn) error {
		// A service that failed while nobody waited keeps its name.
		if err := forget(ctx, c, s.Unit); err != nil {
			return err
		}
		ended := make(chan string, 1)
		if _, err := c.StartTransientUnitContext(ctx, s.Unit, "fail", properties, ended); err != nil {
			return fmt.Errorf("cannot start %s: %w", s.Unit, err)
		}
		select {
		case result := <-ended:
			exit, err = finished(ctx, c, s.Unit, result)
			return err
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
			defer cancel()
			err := b.Stop(stopping, s.Unit)
			if err == nil { // the connection ends with ctx
				err = units(stopping, func(c *dbus.Conn) error { return forget(stopping, c, s.Unit) })
			}
			if err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	})
	return exit, err
}

// finished returns the exit status of a service whose start ended with a result.
func finished(ctx context.Context, c *dbus.Conn, unit, result string) (int, error) {
	switch result {
	case "done":
		return 0, nil
	case "failed":
	default:
		return -1, fmt.Errorf("%s ended with the result %s (journalctl -u %s)", unit, result, unit)
	}
	p, err := c.GetUnitTypePropertiesContext(ctx, unit, "Service")
	if err != nil {
		return -1, fmt.Errorf("cannot look at %s: %w", unit, err)
	}
	if err := forget(ctx, c, unit); err != nil {
		return -1, err
	}
	status, ok := p["ExecMainStatus"].(int32)
	if why, _ := p["Result"].(string); why != "exit-code" || !ok {
		return -1, fmt.Errorf("%s ended with the result %s (journalctl -u %s)", unit, why, unit)
	}
	return int(status), nil
}

// forget removes what systemd keeps of a transient service that failed. The unit would stay on the
// node.
func forget(ctx context.Context, c *dbus.Conn, unit string) error {
	if err := c.ResetFailedUnitContext(ctx, unit); err != nil && !named(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot reset %s: %w", unit, err)
	}
	return nil
}
