package cleanup

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// ipc removes the System V objects of unknown users, and the entries of /dev/shm and /dev/mqueue,
// except for the baseline's and those of system services.
func (c *cleanup) ipc(ctx context.Context) error {
	objects, err := c.m.SysVIPC()
	for _, o := range objects {
		if c.known.UID(o.UID) && c.known.UID(o.CUID) {
			continue
		}
		name := fmt.Sprintf("sysv/%s/%d", o.Kind, o.ID)
		if removed := machine.RemoveIPC(o); removed != nil {
			c.failed("ipc", name, removed)
			continue
		}
		c.dispose("ipc", name, taskcatalog.ActionRemoved, machine.Tally{Bytes: o.Bytes}, "")
	}
	for _, top := range []string{"/dev/shm", "/dev/mqueue"} {
		err = errors.Join(err, c.emptyAny(ctx, "ipc", top, machine.Tree{Remove: func(e *machine.Entry) bool {
			service := e.Stat.Uid != 0 && e.Stat.Uid < 1000 && c.known.UID(e.Stat.Uid)
			return !service && !(e.Depth() == 1 && c.known.Object(e.Path()))
		}}))
	}
	return err
}
