package cleanup

import (
	"context"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// swap wipes the swap areas of the baseline, and takes every other area out of use. An area that a
// crash left out of use comes back with the next run.
func (c *cleanup) swap(ctx context.Context) error {
	if c.known.Base == nil {
		c.skip("swap", "/proc/swaps", "the node has no baseline, so the agent cannot tell the node's own swap from a tenant's")
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
			c.dispose("swap", a.Path, taskcatalog.ActionRemoved, machine.Tally{},
				"taken out of use; its content stays, because the swap area is not in the baseline")
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
