package qemu

import (
	"context"
	"errors"
	"fmt"
)

// SwitchOff takes the power away, in the middle of whatever runs. The guest keeps
// its disks, as they were written by then.
func (g *Guest) SwitchOff(ctx context.Context) error {
	g.hangUp()
	return g.tell(ctx, "stop")
}

// SwitchOn gives the power back: the guest boots.
func (g *Guest) SwitchOn(ctx context.Context) error {
	return errors.Join(g.tell(ctx, "system_reset"), g.tell(ctx, "cont"))
}

// tell runs a command of QEMU's that says nothing when it is content.
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
