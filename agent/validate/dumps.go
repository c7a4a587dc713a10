package validate

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/taskcatalog"
)

// lookDumps finds crash and core dumps in the places that a cleanup empties.
func lookDumps(ctx context.Context, v *validation) ([]item, error) {
	var all []item
	dirs := slices.Concat(cleanup.DumpDirs, cleanup.DumpDirsOfBaseline, []string{"/sys/fs/pstore"})
	for _, dir := range dirs {
		items, err := v.entriesWithLost(ctx, "dumps", "dump/", dir, taskcatalog.ActionStorageCleanup, nil)
		all = append(all, items...)
		if err != nil {
			return all, err
		}
	}
	cores, err := cleanup.CoreDumps(v.m)
	if err != nil {
		return nil, err
	}
	cores = slices.DeleteFunc(cores, func(name string) bool { return slices.Contains(dirs, path.Dir(name)) })
	for i, name := range cores {
		if i == maxForeign {
			return append(all, overflowItem("dumps", "dump/"+path.Dir(name), taskcatalog.ActionStorageCleanup, int64(len(cores)-i))), nil
		}
		st, err := v.m.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v.owner(item{row: "dumps", key: "dump/" + name, finding: taskcatalog.Finding{Subject: name}}, st.Uid,
			taskcatalog.ActionStorageCleanup))
	}
	return all, nil
}
