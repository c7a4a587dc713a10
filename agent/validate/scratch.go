package validate

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// lookScratch finds the entries of scratch directories, by the patterns of the node and of the
// site.
func lookScratch(ctx context.Context, v *validation) ([]item, error) {
	var all []item
	for _, pattern := range append(slices.Clone(v.Host.Scratch), v.policy.Scratch...) {
		names, err := v.m.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("cannot look at scratch %q: %w", clean(pattern), err)
		}
		for _, name := range names {
			items, err := v.entriesWithLost(ctx, "scratch", "scratch/", name, taskcatalog.ActionStorageCleanup, nil)
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}
