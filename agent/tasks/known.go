package tasks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// known answers what was there before any tenant, as the task's baseline has
// it. Without a baseline only what every machine has is known.
type known struct {
	base *taskcatalog.Baseline
}

func knownFrom(b *taskcatalog.Baseline) known { return known{base: b} }

// uid reports whether the owner was there before any tenant.
func (k known) uid(uid uint32) bool {
	if uid == 0 || dynamicUser(uid) {
		return true
	}
	if k.base == nil {
		return uid < 1000
	}
	return slices.ContainsFunc(k.base.Users, func(u taskcatalog.BaselineUser) bool { return u.UID == uid })
}

// homes are the homes of the baseline's users, those that are one's own.
func (k known) homes() []string {
	homes := []string{"/root"}
	if k.base != nil {
		for _, u := range k.base.Users {
			if strings.Count(path.Clean(u.Home), "/") > 1 && path.IsAbs(u.Home) {
				homes = append(homes, path.Clean(u.Home))
			}
		}
	}
	slices.Sort(homes)
	return slices.Compact(homes)
}

// object reports whether the baseline has an object, such as swap//dev/vda2.
func (k known) object(name string) bool {
	return k.base != nil && slices.Contains(k.base.Objects, taskcatalog.Clean(name, taskcatalog.MaxText))
}

// objects lists the names of the baseline's objects of one kind.
func (k known) objects(kind string) []string {
	var all []string
	if k.base != nil {
		for _, o := range k.base.Objects {
			if name, ok := strings.CutPrefix(o, kind+"/"); ok {
				all = append(all, name)
			}
		}
	}
	return all
}

// foreign lists the mounts that were not there before any tenant. The second
// of two alike on one point is foreign if the baseline has one. Without a
// baseline a bind mount is, and so is a second mount of one device.
func (k known) foreign(all []machine.Mount) []machine.Mount {
	var strangers []machine.Mount
	count := map[string]int{}
	for i, mt := range all {
		if k.base != nil {
			name := mountName(mt)
			count[name]++
			if count[name] > 1 {
				name = fmt.Sprintf("%s, mount %d of it", name, count[name])
			}
			if !slices.Contains(k.base.Mounts, name) {
				strangers = append(strangers, mt)
			}
			continue
		}
		again := slices.ContainsFunc(all[:i], func(o machine.Mount) bool { return o.Device == mt.Device && o.Root == mt.Root })
		if again || mt.Root != "/" {
			strangers = append(strangers, mt)
		}
	}
	return strangers
}

// mountName is a mount by point, type and root within its file system.
func mountName(mt machine.Mount) string {
	return taskcatalog.Clean(mt.Point+" "+mt.Type+" "+mt.Root, taskcatalog.MaxText)
}
