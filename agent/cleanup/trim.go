package cleanup

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// trimmable are the file systems that can tell the disk which blocks are free.
var trimmable = []string{"ext3", "ext4", "xfs", "btrfs", "f2fs"}

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
		if !slices.Contains(trimmable, mt.Type) || done[mt.Device] {
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
