package cleanup

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// swap wipes the swap areas of the baseline, and takes every other area out of use. An area that a
// crash left out of use comes back with the next run.
func (c *cleanup) swap(ctx context.Context) error {
	if c.known.Base == nil {
		c.skip("swap", "/proc/swaps", "without a baseline nobody knows which swap is the node's")
		return nil
	}
	areas, err := c.m.SwapAreas()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, a := range areas {
		used[a.Path] = true
	}
	for _, name := range c.known.Objects("swap") {
		if !used[name] {
			areas = append(areas, machine.SwapArea{Path: name, Priority: -1})
		}
	}
	for _, a := range areas {
		if used[a.Path] {
			if err := c.m.SwapOff(a); err != nil {
				c.failed("swap", a.Path, err)
				continue
			}
		}
		if !c.known.Object("swap/" + a.Path) {
			c.dispose("swap", a.Path, taskcatalog.ActionRemoved, machine.Tally{}, "taken out of use; its content stays, since the baseline does not have it")
			continue
		}
		n, err := c.m.WipeSwap(ctx, a)
		// The area goes back into use whether or not the wipe succeeded.
		if on := c.m.SwapOn(a); on != nil {
			c.failed("swap", a.Path, on)
		}
		if err != nil {
			c.failed("swap", a.Path, err)
			continue
		}
		c.dispose("swap", a.Path, taskcatalog.ActionEmptied, machine.Tally{Bytes: n}, "overwritten with zeros")
	}
	return nil
}

// namespaces removes the names of network namespaces that the baseline does not have.
func (c *cleanup) namespaces(context.Context) error {
	if c.known.Base == nil {
		c.skip("namespaces", "/run/netns", "without a baseline nobody knows which are the node's")
		return nil
	}
	names, err := c.m.NetNamespaces()
	if err != nil {
		return err
	}
	host, err := c.m.NetNS(1)
	if err != nil {
		return err
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	for _, mt := range mounts {
		switch {
		case mt.Type == "nsfs" && mt.Root == host: // another name of the host's own namespace
			names = slices.DeleteFunc(names, func(n string) bool { return n == mt.Point })
		case mt.Type == "nsfs" && !slices.Contains(names, mt.Point):
			names = append(names, mt.Point)
		}
	}
	for _, name := range names {
		if c.known.Object("netns/" + name) {
			continue
		}
		if err := c.m.RemoveNetNamespace(name); err != nil {
			c.failed("namespaces", name, err)
			continue
		}
		c.dispose("namespaces", name, taskcatalog.ActionRemoved, machine.Tally{}, "")
	}
	return nil
}

// blockDevices removes the devices that software set up and the baseline does not have, the upper
// devices before the lower.
func (c *cleanup) blockDevices(ctx context.Context) error {
	if c.known.Base == nil {
		c.skip("block_devices", "/sys/block", "without a baseline nobody knows which are the node's")
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
					c.failed("block_devices", d.Object, errors.New("another device lies on it"))
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
		c.dispose("mounts", mt.Point, taskcatalog.ActionRemoved, machine.Tally{}, "a mount of a device that the baseline does not have was detached")
	}
	return nil
}

// trims are the file systems that can tell the disk which blocks are free.
var trims = []string{"ext3", "ext4", "xfs", "btrfs", "f2fs"}

// trim tells the disks which blocks are free now, each file system once.
func (c *cleanup) trim(ctx context.Context) error {
	if c.params.NoTrim {
		c.skip("free_blocks", "/", "the task asked for no trim")
		return nil
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, mt := range mounts {
		if !slices.Contains(trims, mt.Type) || done[mt.Device] {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		done[mt.Device] = true
		n, err := c.m.Trim(mt.Point)
		switch {
		case errors.Is(err, machine.ErrNoTrim):
			c.skip("free_blocks", mt.Point, err.Error())
		case err != nil:
			c.failed("free_blocks", mt.Point, err)
		default:
			c.result.TrimmedBytes += n
			c.dispose("free_blocks", mt.Point, taskcatalog.ActionEmptied, machine.Tally{Bytes: n}, "trimmed")
		}
	}
	return nil
}
