package terminals

import (
	"context"
	"time"
)

// LookOnce checks all sessions once, as Run does at each tick, and waits for what the check began.
func (d *Service) LookOnce(ctx context.Context) error {
	err := d.look(ctx)
	d.watch.group.Wait()
	return err
}

// Tick is the time between two checks.
func (d *Service) Tick() time.Duration { return d.c.Tick }
