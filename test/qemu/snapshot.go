package qemu

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var snapshotName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// SaveVM keeps the guest's memory, devices and disks under a name. The guest
// goes on afterwards as if nothing had happened.
func (g *Guest) SaveVM(ctx context.Context, name string) error {
	if !snapshotName.MatchString(name) {
		return fmt.Errorf("guest %s: cannot save as %q (use lower-case letters, digits and dashes)", g.name, name)
	}
	if g.config.TSC {
		return fmt.Errorf("guest %s: cannot save as %q (its clock is the TSC, which no snapshot sets back)", g.name, name)
	}
	// A snapshot must not contain an open ssh session: its other end will be gone.
	g.hangUp()
	return g.tell(ctx, "savevm "+name)
}

// LoadVM restores the guest to the state of SaveVM, sets its clock to now, and returns once the
// guest runs commands. Connections into the guest are lost.
func (g *Guest) LoadVM(ctx context.Context, name string, now time.Time) error {
	if !snapshotName.MatchString(name) {
		return fmt.Errorf("guest %s: cannot load %q (no such snapshot)", g.name, name)
	}
	g.hangUp()
	for _, command := range []string{"loadvm " + name, "cont"} { // a twin or a switched-off guest is stopped
		if err := g.tell(ctx, command); err != nil {
			return err
		}
	}
	if err := g.WaitSSH(ctx); err != nil {
		return err
	}
	return g.SetClock(ctx, now)
}

// SetClock sets the guest's wall clock, to about the time a command takes.
func (g *Guest) SetClock(ctx context.Context, now time.Time) error {
	_, err := g.Run(ctx, "date", "--utc", "--set", "@"+strconv.FormatFloat(float64(now.UnixNano())/1e9, 'f', 3, 64))
	return err
}
