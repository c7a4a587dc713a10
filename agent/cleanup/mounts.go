package cleanup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// detachTenantMounts detaches a tenant's mounts on, above or below a path before the path is swept:
// a sweep must neither empty /etc because /etc was bound to /tmp, nor leave files that a mount
// covers.
func (c *cleanup) detachTenantMounts(top string) error {
	if err := c.detach(func(all, strangers []machine.Mount) []machine.Mount {
		on, _ := machine.Covering(all, top)
		return slices.DeleteFunc(strangers, func(mt machine.Mount) bool { return mt != on && !machine.Under(mt.Point, top) })
	}); err != nil {
		return err
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	on, ok := machine.Covering(mounts, top)
	switch {
	case !ok:
		return errors.New("on a mount that the agent does not know")
	case slices.Contains(c.known.Foreign(mounts), on):
		return errors.New("the root file system is not the baseline's")
	case !on.Local():
		return fmt.Errorf("on a file system of type %s, which is not local to this machine", taskcatalog.Clean(on.Type, 32))
	}
	return nil
}

// detach detaches the mounts that the baseline does not have and choose picks, except for the root.
func (c *cleanup) detach(choose func(all, strangers []machine.Mount) []machine.Mount) error {
	return c.m.DetachAll(func(all []machine.Mount) []machine.Mount {
		return slices.DeleteFunc(choose(all, c.known.Foreign(all)), func(mt machine.Mount) bool { return mt.Point == "/" })
	}, func(mt machine.Mount) {
		c.dispose("mounts", mt.Point, taskcatalog.ActionRemoved, machine.Tally{},
			"a mount of type "+mt.Type+" that the baseline does not have was detached")
	})
}
