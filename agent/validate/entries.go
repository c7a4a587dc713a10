package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
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
	err = still(ctx, func() (moved string, err error) {
		before := items
		items, moved, err = v.listed(ctx, row, kind, dir, next, skip)
		items = withStrangers(items, before)
		return moved, err
	})
	return items, err
}

// withStrangers adds the strangers' items that an earlier listing saw.
func withStrangers(items, before []item) []item {
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
func (v *validation) listed(ctx context.Context, row, kind, dir, next string, skip func(*machine.Entry) bool) (items []item, moved string, err error) {
	var more int64
	add := func(name string, st unix.Stat_t) {
		if len(items) >= maxForeign {
			more++
			return
		}
		items = append(items, v.owner(item{row: row, key: kind + name, id: inode(st), finding: taskcatalog.Finding{Subject: name}}, st.Uid, next))
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
		items = append(items, manyMore(row, kind+dir, next, more))
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

// manyMore stands for the entries beyond maxForeign: a tenant can create as many names as there are
// inodes, and the agent's memory is bounded.
func manyMore(row, where, next string, n int64) item {
	return item{row: row, key: where + " and more", differs: true, finding: taskcatalog.Finding{
		Subject: where, Detail: "there is more than can be listed", Count: n, NextAction: next,
	}}
}

// lookJobs finds jobs that users left to run later, by owner and by name.
func lookJobs(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.tree(ctx, []string{"/var/spool/cron", "/var/spool/at", "/var/lib/systemd/linger"}, func(name string, mode uint32) bool {
		return passive(mode) && (name == "/var/spool/at/.SEQ" || name == "/var/spool/cron/atjobs/.SEQ") // at's counter
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, f := range records {
		if v.taking {
			break
		}
		if i := slices.IndexFunc(v.accounts, func(a host.Account) bool { return a.UID == f.UID || a.Username == path.Base(f.Path) }); i >= 0 {
			items = append(items, v.owner(item{row: "jobs", key: f.Path}, v.accounts[i].UID, taskcatalog.ActionRevokeUser))
		}
	}
	for _, it := range v.compareFiles("jobs", records, func(name string) bool { return rowOf(name) == "jobs" }, rowOf) {
		if !slices.ContainsFunc(items, func(of item) bool { return of.key == it.key }) {
			items = append(items, it)
		}
	}
	return items, nil
}

// lookIPC finds System V objects by owner and kind: their numbers change, and so does the number of
// objects of a system service.
func lookIPC(ctx context.Context, v *validation) ([]item, error) {
	list, err := v.m.SysVIPC()
	if err != nil {
		return nil, err
	}
	var items []item
	for _, o := range list {
		uid := o.UID
		if v.knows(uid) {
			uid = o.CUID
		}
		it := item{row: "ipc", key: fmt.Sprintf("%s/of uid %d", o.Kind, uid), id: fmt.Sprintf("%s %d", o.Kind, o.ID), finding: taskcatalog.Finding{
			Subject: fmt.Sprintf("%s %d", o.Kind, o.ID), Detail: fmt.Sprintf("%d bytes", o.Bytes),
		}}
		if !v.knows(uid) {
			it.key = fmt.Sprintf("%s/%d of uid %d", o.Kind, o.ID, uid)
		}
		items = append(items, v.owner(it, uid, taskcatalog.ActionReimage))
	}
	for _, d := range []struct{ kind, dir string }{{"shm", "/dev/shm"}, {"mqueue", "/dev/mqueue"}} {
		found, err := v.entries(ctx, "ipc", "", d.dir, taskcatalog.ActionStorageCleanup, nil)
		items = append(items, found...)
		if err != nil {
			return items, err
		}
	}
	return items, nil
}

// entriesBut is entries, and also lists lost+found, where fsck keeps files that it found without a
// name. The owner of those files is unknown.
func (v *validation) entriesBut(ctx context.Context, row, kind, dir, next string, skip func(*machine.Entry) bool) ([]item, error) {
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

// lookHomes finds the entries of /home that are not a known user's home.
func lookHomes(ctx context.Context, v *validation) ([]item, error) {
	return v.entriesBut(ctx, "homes", "home/", "/home", taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
		_, known := v.homes[e.Path()]
		return known && e.IsDir()
	})
}

// privateTmp matches the name, after the boot's id, of the directory that systemd creates for a
// unit with a /tmp of its own.
var privateTmp = regexp.MustCompile(`^([A-Za-z0-9@:._\\-]+\.service)-[A-Za-z0-9]{6}$`)

// snapTmp matches the name of the directory that snapd creates for a snap in snap-private-tmp.
var snapTmp = regexp.MustCompile(`^snap\.[a-z0-9][a-z0-9_-]*$`)

// lookTemporary finds the entries of the temporary directories, except those that the system
// creates at each boot. In the private directory of a unit or a snap, entries of root or of a
// stranger are items too, keyed by the unit or snap: a tenant with root can create a directory of
// that name.
func lookTemporary(ctx context.Context, v *validation) ([]item, error) {
	boot, err := v.m.BootID()
	if err != nil {
		return nil, err
	}
	prefix := "systemd-private-" + strings.ReplaceAll(boot, "-", "") + "-"
	var all []item
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		sockets, private := map[string]bool{}, map[string]string{}
		snaps := ""
		items, err := v.entriesBut(ctx, "temporary", "temporary/", dir, taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
			if !cleanup.SystemTemporary(e, boot) {
				return false
			}
			switch unit := privateTmp.FindStringSubmatch(strings.TrimPrefix(e.Name, prefix)); {
			case strings.HasPrefix(e.Name, "."):
				sockets[e.Path()] = true
			case e.Name == cleanup.SnapPrivateTmp:
				snaps = e.Path()
			case unit == nil:
				return false
			default:
				private[e.Path()] = unit[1]
			}
			return true
		})
		all = append(all, items...)
		if err != nil {
			return all, err
		}
		for s := range sockets {
			items, err := v.entries(ctx, "temporary", "temporary/", s, taskcatalog.ActionStorageCleanup, nil)
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
		if snaps != "" {
			items, err := v.entries(ctx, "temporary", "temporary/", snaps, taskcatalog.ActionReimage, func(e *machine.Entry) bool {
				own := snapTmp.MatchString(e.Name) && cleanup.OwnDirectory(e)
				if own {
					private[e.Path()] = e.Name
				}
				return own
			})
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
		for own, whose := range private {
			items, err := v.private(ctx, own, whose)
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// private finds the entries of a unit's or a snap's own temporary directory, except those of a
// service's own user.
func (v *validation) private(ctx context.Context, own, whose string) ([]item, error) {
	var all []item
	for _, dir := range []string{own, path.Join(own, "tmp")} {
		items, err := v.entries(ctx, "temporary", "", dir, taskcatalog.ActionReimage, func(e *machine.Entry) bool {
			return dir == own && e.Name == "tmp" && e.IsDir() && e.Stat.Uid == 0 || e.Stat.Uid != 0 && e.Stat.Uid < 1000 && v.knows(e.Stat.Uid) || host.DynamicUser(e.Stat.Uid)
		})
		for i := range items { // the directory has another name after each boot
			items[i].key = "temporary/private " + whose + strings.TrimPrefix(items[i].key, own)
		}
		all = append(all, items...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

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
			items, err := v.entriesBut(ctx, "scratch", "scratch/", name, taskcatalog.ActionStorageCleanup, nil)
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// lookDumps finds crash and core dumps in the places that a cleanup empties.
func lookDumps(ctx context.Context, v *validation) ([]item, error) {
	var all []item
	dirs := slices.Concat(cleanup.DumpDirs, cleanup.DumpDirsOfBaseline, []string{"/sys/fs/pstore"})
	for _, dir := range dirs {
		items, err := v.entriesBut(ctx, "dumps", "dump/", dir, taskcatalog.ActionStorageCleanup, nil)
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
			return append(all, manyMore("dumps", "dump/"+path.Dir(name), taskcatalog.ActionStorageCleanup, int64(len(cores)-i))), nil
		}
		st, err := v.m.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v.owner(item{row: "dumps", key: "dump/" + name, finding: taskcatalog.Finding{Subject: name}}, st.Uid, taskcatalog.ActionStorageCleanup))
	}
	return all, nil
}

type containerStore struct{ kind, dir string }

// containerStores are the directories in which engines keep one name for each object.
var containerStores = []containerStore{
	{"container/", "/var/lib/docker/containers"},
	{"image/", "/var/lib/docker/image/*/imagedb/content/sha256"},
	{"volume/", "/var/lib/docker/volumes"},
	{"container/", "/run/containerd/io.containerd.runtime.v2.task/*"},
	{"image/", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"},
	{"container/", "/var/lib/containerd/io.containerd.snapshotter.v1.*/snapshots"},
	{"container/", "/var/lib/containers/storage/*-containers"},
	{"image/", "/var/lib/containers/storage/*-images"},
	{"volume/", "/var/lib/containers/storage/volumes"},
	{"container/", "/var/lib/machines"},
	{"container/", "/var/lib/lxc"},
	{"container/", "/var/lib/lxd/containers"},
	{"container/", "/var/lib/kubelet/pods"},
}

// lookContainers finds containers, images and volumes by the engines' own directories: an engine
// would have to run to answer, and could lie.
func lookContainers(ctx context.Context, v *validation) ([]item, error) {
	var all []item
	stores := slices.Clone(containerStores)
	for root := range v.Host.ContainerRoots {
		stores = append(stores, containerStore{"container/", root})
		// The root may be the moved root of any engine: directories that do not exist are empty.
		for _, usual := range []string{"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/containers/storage"} {
			for _, s := range containerStores {
				if machine.Under(s.dir, usual) {
					stores = append(stores, containerStore{s.kind, root + strings.TrimPrefix(s.dir, usual)})
				}
			}
		}
	}
	for _, s := range stores {
		dirs, err := v.glob(s.dir)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			items, err := v.entriesBut(ctx, "containers", s.kind, dir, taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
				if !e.IsRegular() || e.Stat.Uid != 0 { // a volume may be named evil.json
					return false
				}
				return e.Name == "metadata.db" || e.Name == "backingFsBlockDev" || strings.HasSuffix(e.Name, ".lock") || strings.HasSuffix(e.Name, ".json")
			})
			all = append(all, items...)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// glob resolves the component of a pattern that holds a star.
func (v *validation) glob(pattern string) ([]string, error) {
	before, after, found := strings.Cut(pattern, "*")
	if !found {
		return []string{pattern}, nil
	}
	dir, prefix := path.Split(before)
	suffix, rest, _ := strings.Cut(after, "/")
	names, err := v.m.Names(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			all = append(all, path.Join(dir, name, rest))
		}
	}
	return all, nil
}
