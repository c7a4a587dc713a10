package validate

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

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
			items, err := v.entriesWithLost(ctx, "containers", s.kind, dir, taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
				if !e.IsRegular() || e.Stat.Uid != 0 { // a volume may be named evil.json
					return false
				}
				return e.Name == "metadata.db" || e.Name == "backingFsBlockDev" || strings.HasSuffix(e.Name, ".lock") ||
					strings.HasSuffix(e.Name, ".json")
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
