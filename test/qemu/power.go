package qemu

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// SwitchOff cuts the guest's power. The guest keeps its disks as written so far.
func (g *Guest) SwitchOff(ctx context.Context) error {
	g.hangUp()
	return g.tell(ctx, "stop")
}

// SwitchOn gives the power back: the guest boots.
func (g *Guest) SwitchOn(ctx context.Context) error {
	return errors.Join(g.tell(ctx, "system_reset"), g.tell(ctx, "cont"))
}

// Unplug ends the guest at once and frees its devices. Its own disks stay, as written so far, until
// the guest is closed.
func (g *Guest) Unplug(ctx context.Context) error {
	g.hangUp()
	_ = g.monitor.execute(ctx, "quit", nil, nil) // QEMU may end before it answers
	select {
	case <-g.alive.Done():
	case <-ctx.Done():
		return fmt.Errorf("guest %s cannot be unplugged: %w", g.name, context.Cause(ctx))
	}
	return g.monitor.conn.Close()
}

// Replug boots an unplugged guest from its own disks, in a chassis without the devices of
// Config.Args.
func (g *Guest) Replug(ctx context.Context) error {
	g.config.Args = nil
	return g.start(ctx)
}

// Kill ends the guest's QEMU by SIGKILL. With Config.Flushes the guest's disks contain all flushed
// data, and an arbitrary part of the rest.
func (g *Guest) Kill() error {
	err := syscall.Kill(-g.pid, syscall.SIGKILL)
	<-g.alive.Done()
	g.hangUp()
	return errors.Join(err, g.monitor.conn.Close())
}

// Again boots a killed guest from its own disks, as the same machine.
func (g *Guest) Again(ctx context.Context) error { return g.start(ctx) }

// Reboot reboots the guest as a user would, and returns once the firmware starts again.
func (g *Guest) Reboot(ctx context.Context) error {
	return g.RebootAfter(ctx, func() error { _, _ = g.Run(ctx, "systemctl", "reboot"); return nil })
}

// RebootAfter does what makes the guest reboot, and returns once the firmware starts again. The guest
// starts in a new QEMU: an old QEMU with the translated code of a whole system searches that code
// at each write over it, and the second kernel overwrites all of the first. That would take as long
// as the boot.
func (g *Guest) RebootAfter(ctx context.Context, do func() error) error {
	if err := g.monitor.execute(ctx, "set-action", map[string]string{"reboot": "shutdown"}, nil); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	g.hangUp()
	select {
	case <-g.alive.Done():
	case <-ctx.Done():
		return fmt.Errorf("guest %s does not go down: %w\n%s", g.name, context.Cause(ctx), g.consoleTail())
	}
	g.monitor.conn.Close()
	return g.start(ctx)
}

// tell runs a command of QEMU's monitor. Any output of the command is an error.
func (g *Guest) tell(ctx context.Context, command string) error {
	said, err := g.monitor.human(ctx, command)
	if err == nil && said != "" {
		err = errors.New(said)
	}
	if err != nil {
		return fmt.Errorf("guest %s: %s: %w", g.name, command, err)
	}
	return nil
}
