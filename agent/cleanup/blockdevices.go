package cleanup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// blockDevices removes the devices that software set up and the baseline does not have, the upper
// devices before the lower.
func (c *cleanup) blockDevices(ctx context.Context) error {
	if c.known.Base == nil {
		c.skip("block_devices", "/sys/block", "the node has no baseline, so the agent cannot tell the node's own devices from a tenant's")
		return nil
	}
	tried := map[string]bool{}
	for ctx.Err() == nil {
		devices, err := c.m.SetUpDevices()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(devices, func(d machine.SetUpDevice) bool {
			return !d.Held && !tried[d.Name+d.Object] && !c.known.Object(d.Object)
		})
		if i < 0 {
			for _, d := range devices {
				if d.Held && !c.known.Object(d.Object) && !tried[d.Name+d.Object] {
					c.failed("block_devices", d.Object, errors.New("another device is stacked on top of this one"))
				}
			}
			return nil
		}
		d := devices[i]
		tried[d.Name+d.Object] = true
		if err := c.detachDevice(d.Number); err != nil {
			c.failed("block_devices", d.Object, err)
			continue
		}
		if err := c.m.RemoveDevice(d); err != nil {
			c.failed("block_devices", d.Object, err)
			continue
		}
		reason := ""
		if disks := slices.DeleteFunc(slices.Clone(d.Slaves), func(s string) bool {
			return strings.HasPrefix(s, "loop") || strings.HasPrefix(s, "dm-") || strings.HasPrefix(s, "zram")
		}); len(disks) > 0 {
			reason = "its content stays on " + strings.Join(disks, ", ") + ": erase the disk"
		}
		c.dispose("block_devices", d.Object, taskcatalog.ActionRemoved, machine.Tally{}, reason)
	}
	return ctx.Err()
}

// detachDevice detaches every mount of a device.
func (c *cleanup) detachDevice(number string) error {
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	for _, mt := range mounts {
		if mt.Device != number {
			continue
		}
		if err := c.m.Detach(mt.Point); err != nil {
			return err
		}
		c.dispose("mounts", mt.Point, taskcatalog.ActionRemoved, machine.Tally{},
			"a mount of a device that is not in the baseline was detached")
	}
	return nil
}
