package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// objects turns names into items; each key is the kind followed by the name.
func objects(row, kind string, names []string, next string) []item {
	items := make([]item, len(names))
	for i, name := range names {
		items[i] = item{row: row, key: kind + name, finding: taskcatalog.Finding{Subject: name, NextAction: next}}
	}
	return items
}

// entries lists the names in a directory that a tenant may have touched, with their owners. A
// directory that is a link or no directory is itself an entry. With an error, entries still returns
// the items seen.
func (v *validation) entries(ctx context.Context, row, kind, dir, next string, skip func(*machine.Entry) bool) (items []item, err error) {
	err = listUntilStable(ctx, func() (moved string, err error) {
		before := items
		items, moved, err = v.listed(ctx, row, kind, dir, next, skip)
		items = addForeign(items, before)
		return moved, err
	})
	return items, err
}

// addForeign adds the strangers' items that an earlier listing saw.
func addForeign(items, before []item) []item {
	seen := marks(items)
	for _, it := range before {
		if len(items) > 2*maxForeign {
			break
		}
		if (it.tenant || it.stranger) && !seen[keyMark(it)] && !seen[idMark(it)] {
			items = append(items, it)
		}
	}
	return items
}

// listed lists a directory once; moved names a path that changed meanwhile.
func (v *validation) listed(
	ctx context.Context, row, kind, dir, next string, skip func(*machine.Entry) bool,
) (items []item, moved string, err error) {
	var more int64
	add := func(name string, st unix.Stat_t) {
		if len(items) >= maxForeign {
			more++
			return
		}
		items = append(items, v.owner(item{row: row, key: kind + name, id: inode(st), finding: taskcatalog.Finding{Subject: name}}, st.Uid,
			next))
	}
	var failed error
	changed := func(p string) { moved = changedMeanwhile(p) }
	_, err = v.m.Empty(ctx, dir, machine.Tree{
		Look: func(e *machine.Entry) {
			if skip == nil || !skip(e) {
				add(e.Path(), e.Stat)
			}
		},
		Enter: func(*machine.Entry) bool { return false },
		Fault: func(p string, err error) {
			if !errors.Is(err, machine.ErrMount) {
				failed = fmt.Errorf("cannot look at %s: %w", p, err)
			}
		},
		Gone: changed, Changed: changed,
	})
	if more > 0 {
		items = append(items, overflowItem(row, kind+dir, next, more))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		st, statErr := v.m.Lstat(dir)
		if statErr != nil && !errors.Is(statErr, unix.ELOOP) {
			return nil, "", err
		}
		add(dir, st)
		return items, "", nil
	}
	return items, moved, errors.Join(err, failed)
}

// inode identifies a file by numbers that nobody can choose.
func inode(st unix.Stat_t) string { return fmt.Sprintf("file %d:%d", st.Dev, st.Ino) }

// overflowItem stands for the entries beyond maxForeign: a tenant can create as many names as there
// are inodes, and the agent's memory is bounded.
func overflowItem(row, where, next string, n int64) item {
	return item{row: row, key: where + " and more", differs: true, finding: taskcatalog.Finding{
		Subject: where, Detail: "there are more entries than the limit", Count: n, NextAction: next,
	}}
}

// entriesWithLost is entries, and also lists lost+found, where fsck keeps files that it found
// without a name. The owner of those files is unknown.
func (v *validation) entriesWithLost(ctx context.Context, row, kind, dir, next string, skip func(*machine.Entry) bool) ([]item, error) {
	lost := false
	all, err := v.entries(ctx, row, kind, dir, next, func(e *machine.Entry) bool {
		own := e.LostAndFound()
		lost = lost || own
		return own || skip != nil && skip(e)
	})
	if err != nil || !lost {
		return all, err
	}
	items, err := v.entries(ctx, row, kind, path.Join(dir, "lost+found"), next, nil)
	return append(all, items...), err
}
