package validate

import (
	"context"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// lookHomes finds the entries of /home that are not a known user's home.
func lookHomes(ctx context.Context, v *validation) ([]item, error) {
	return v.entriesWithLost(ctx, "homes", "home/", "/home", taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
		_, known := v.homes[e.Path()]
		return known && e.IsDir()
	})
}
