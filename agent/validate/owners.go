package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// lookFiles goes through every local file system once. It finds files of unknown owners, set-uid
// files, capabilities, and new names at the top. Directories writable to strangers are looked at
// again on their own: during a walk of minutes, a tenant could move a file from a place not yet
// walked to a place already walked.
func lookFiles(ctx context.Context, v *validation) ([]item, error) {
	if len(v.users) == 0 && !v.takesBaseline {
		return nil, errors.New("no user is known")
	}
	mounts, err := v.m.LocalMounts()
	if err != nil {
		return nil, err
	}
	if len(mounts) == 0 {
		return nil, errors.New("no local file system is mounted")
	}
	o := &ownerScan{v: v, within: map[string]uint32{}, seen: map[string]bool{}, again: map[string]bool{}}
	var failed error
	for _, top := range mounts {
		on, err := v.m.Lstat(top)
		if err == nil {
			o.share(top, on)
		}
		t := machine.Tree{
			Look: func(e *machine.Entry) {
				o.look(e)
				if e.Stat.Dev == on.Dev { // otherwise a file system is mounted there, which may never answer
					o.share(e.Path(), e.Stat)
				}
			},
			Gone:    func(p string) { o.note(path.Dir(p), false) },
			Changed: func(dir string) { o.note(dir, false) },
			Fault: func(p string, err error) {
				if failed == nil && !errors.Is(err, machine.ErrMount) {
					failed = fmt.Errorf("cannot look at %s: %w", p, err)
				}
			},
		}
		if _, err := v.m.Empty(ctx, top, t); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return o.items, fmt.Errorf("cannot look at %s: %w", top, err)
		}
	}
	if o.tooMany {
		failed = errors.Join(failed, fmt.Errorf("more than %d directories that other users may write to", maxAgain))
	}
	if failed != nil {
		return o.items, failed
	}
	err = listUntilStable(ctx, func() (string, error) { return o.lookAgain(ctx) })
	items := o.items
	if o.setuids > maxForeign {
		items = append(items, overflowItem("setuid", "setuid", taskcatalog.ActionReimage, o.setuids-maxForeign))
	}
	if err != nil {
		return items, err
	}
	for _, dir := range []string{"/", "/root", "/srv", "/mnt", "/media"} {
		found, err := v.entries(ctx, "files", "top/", dir, taskcatalog.ActionReimage, func(e *machine.Entry) bool {
			return dir == "/root" && strings.HasPrefix(e.Name, ".") // a shell's own files
		})
		items = append(items, found...)
		if err != nil {
			return items, err
		}
	}
	return items, nil
}

// ownerScan is a look at the owners of all files.
type ownerScan struct {
	v       *validation
	items   []item
	within  map[string]uint32 // directories already reported, with their owner
	seen    map[string]bool   // the keys and ids in items
	setuids int64
	// again are directories to look at once more: directories that strangers may write to (true),
	// which must come to rest, and directories that changed during the walk (false).
	again   map[string]bool
	tooMany bool
}

func (o *ownerScan) look(e *machine.Entry) {
	if !o.v.knownUID(e.Stat.Uid) || host.DynamicUser(e.Stat.Uid) {
		o.foreign(e)
	}
	privileged, what := e.Privileged()
	if !privileged {
		return
	}
	name := e.Path()
	it := item{
		row: "setuid", key: fmt.Sprintf("setuid/%s %s uid %d", name, what, e.Stat.Uid), id: inode(e.Stat),
		finding: taskcatalog.Finding{Subject: name, Detail: what},
	}
	if o.seen[it.key] {
		return
	}
	if o.setuids++; o.setuids <= maxForeign {
		o.seen[it.key] = true
		o.items = append(o.items, o.v.owner(it, e.Stat.Uid, taskcatalog.ActionReimage))
	}
}

// maxAgain bounds the directories to look at again: each layer of a container image has a few.
const maxAgain = 1 << 16

// share notes a directory of a known user that strangers may write to. An entry of an ACL grants
// writing only together with the group's permission bit.
func (o *ownerScan) share(name string, st unix.Stat_t) {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o022 != 0 && o.v.knownUID(st.Uid) {
		o.note(name, true)
	}
}

func (o *ownerScan) note(dir string, shared bool) {
	switch _, noted := o.again[dir]; {
	case noted || len(o.again) < maxAgain:
		o.again[dir] = shared || o.again[dir]
	case shared:
		o.tooMany = true
	}
}

// lookAgain looks at the noted directories once more, all within a moment. A stranger can hide a
// file only in a directory writable to strangers, or below a directory of the stranger's own. In a
// system directory a daemon may be at work: there only a vanished name counts as a change.
func (o *ownerScan) lookAgain(ctx context.Context) (moved string, err error) {
	since := machine.ChangeClock()
	for dir, shared := range o.again {
		t := machine.Tree{Look: o.look, Enter: func(*machine.Entry) bool { return false }, Since: since}
		t.Gone = func(p string) { moved = changedMeanwhile(p) }
		if shared {
			t.Changed = t.Gone
		}
		t.Fault = func(p string, fault error) {
			if !errors.Is(fault, machine.ErrMount) {
				err = fmt.Errorf("cannot look at %s: %w", p, fault)
			}
		}
		_, failed := o.v.m.Empty(ctx, dir, t)
		switch {
		case err != nil:
			return "", err
		case errors.Is(failed, fs.ErrNotExist), errors.Is(failed, unix.ELOOP), errors.Is(failed, unix.ENOTDIR):
			if shared {
				moved = changedMeanwhile(dir)
			}
		case failed != nil:
			return "", fmt.Errorf("cannot look at %s: %w", dir, failed)
		}
	}
	return moved, nil
}

func changedMeanwhile(name string) string { return clean(name) + " changed during the scan" }

// maxForeign bounds how many entries of a tenant's tree are noted by name.
const maxForeign = 10_000

// foreign notes a file of an unknown owner, or only the topmost directory of a tree.
func (o *ownerScan) foreign(e *machine.Entry) {
	name, uid := e.Path(), e.Stat.Uid
	if host.DynamicUser(uid) &&
		slices.ContainsFunc([]string{
			"/var/lib/private/", "/var/cache/private/", "/var/log/private/", "/run/", "/tmp/systemd-private-",
			"/var/tmp/systemd-private-",
		}, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return
	}
	above, below := o.within[path.Dir(name)]
	if e.IsDir() && len(o.within) < maxForeign {
		o.within[name] = uid
	}
	it := item{
		row: "files", key: fmt.Sprintf("foreign/%s uid %d", name, uid), id: inode(e.Stat),
		finding: taskcatalog.Finding{Subject: name, Detail: "of a uid that is not in the baseline"},
	}
	if below && above == uid || len(o.items) > maxForeign || o.seen[idMark(it)] {
		return
	}
	o.seen[idMark(it)] = true
	it = o.v.owner(it, uid, cleanup.FileRemedy(name))
	it.stranger = true // systemd's dynamic uids belong to nobody here
	o.items = append(o.items, it)
}
