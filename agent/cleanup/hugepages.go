package cleanup

import (
	"context"
	"errors"
)

// hugepages empties every hugetlbfs: a file there keeps memory in use.
func (c *cleanup) hugepages(ctx context.Context) error {
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	var all error
	for _, mt := range mounts {
		if mt.Type != "hugetlbfs" {
			continue
		}
		all = errors.Join(all, c.emptyAny(ctx, "hugepages", mt.Point, c.exceptKnown("hugepages/")))
	}
	return all
}
