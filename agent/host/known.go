package host

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Known separates what the machine had before its first tenant from later additions. The task's
// baseline decides; without a baseline only the things of every machine are known.
type Known struct {
	Base *taskcatalog.Baseline // nil: the node has no baseline
}

// UID reports whether the user existed before the first tenant.
func (k Known) UID(uid uint32) bool {
	if uid == 0 || DynamicUser(uid) {
		return true
	}
	if k.Base == nil {
		return uid < 1000
	}
	return slices.ContainsFunc(k.Base.Users, func(u taskcatalog.BaselineUser) bool { return u.UID == uid })
}

// Homes lists the home directories of root and of the baseline's users. Directories
// of the system, such as / and /bin, are left out.
func (k Known) Homes() []string {
	homes := []string{"/root"}
	if k.Base != nil {
		for _, u := range k.Base.Users {
			if strings.Count(path.Clean(u.Home), "/") > 1 && path.IsAbs(u.Home) {
				homes = append(homes, path.Clean(u.Home))
			}
		}
	}
	slices.Sort(homes)
	return slices.Compact(homes)
}

// Object reports whether the baseline has the object, such as swap//dev/vda2.
func (k Known) Object(name string) bool {
	return k.Base != nil && slices.Contains(k.Base.Objects, taskcatalog.Clean(name, taskcatalog.MaxText))
}

// Objects lists the names of the baseline's objects of one kind.
func (k Known) Objects(kind string) []string {
	var all []string
	if k.Base != nil {
		for _, o := range k.Base.Objects {
			if name, ok := strings.CutPrefix(o, kind+"/"); ok {
				all = append(all, name)
			}
		}
	}
	return all
}

// Foreign lists the mounts that came after the baseline was taken. Of two equal mounts on one point
// the second is foreign if the baseline has only one of them. Without a baseline, bind mounts and
// second mounts of a device are foreign.
func (k Known) Foreign(all []machine.Mount) []machine.Mount {
	var strangers []machine.Mount
	count := map[string]int{}
	for i, mt := range all {
		if k.Base != nil {
			name := MountName(mt)
			count[name]++
			if count[name] > 1 {
				name = fmt.Sprintf("%s, mount %d of it", name, count[name])
			}
			if !slices.Contains(k.Base.Mounts, name) {
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

// MountName names a mount as baselines do: point, type, and root within the file system.
func MountName(mt machine.Mount) string {
	return taskcatalog.Clean(mt.Point+" "+mt.Type+" "+mt.Root, taskcatalog.MaxText)
}

// DynamicUser reports whether systemd lends the uid to services for as long as they
// run (systemd.exec(5), DynamicUser=).
func DynamicUser(uid uint32) bool { return uid >= 61184 && uid <= 65519 }
