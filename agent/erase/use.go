package erase

import (
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// use is a reason why a disk must not be erased.
type use struct {
	code taskcatalog.Code
	what string
}

// inUse finds the users of the machine's disks, keyed by disk name. The worst reason comes first.
func (s system) inUse(all []*disk) (map[string][]use, error) {
	found := map[string][]use{}
	note := func(device string, code taskcatalog.Code, what string) error {
		names, err := s.DisksUnder(device)
		for _, name := range names {
			found[name] = append(found[name], use{code, what})
		}
		return err
	}
	mounts, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		code := taskcatalog.CodeDiskMounted
		if machine.SystemPoint(m.Point) {
			code = taskcatalog.CodeDiskBacksSystem
		}
		name, err := s.BlockNumbered(m.Device)
		if err == nil && name != "" {
			err = note(name, code, "mounted at "+m.Point)
		}
		if err != nil {
			return nil, err
		}
	}
	areas, err := s.SwapAreas()
	if err != nil {
		return nil, err
	}
	for _, a := range areas {
		name := path.Base(a.Path) // a swap file's file system is found as a mount
		known, err := s.Has("/sys/class/block/" + name)
		if err == nil && known && path.Dir(a.Path) == "/dev" {
			err = note(name, taskcatalog.CodeDiskSwap, "a swap area")
		}
		if err != nil {
			return nil, err
		}
	}
	members, err := s.BtrfsMembers()
	if err != nil {
		return nil, err
	}
	for _, name := range members {
		if err := note(name, taskcatalog.CodeDiskMounted, "a member of a mounted btrfs"); err != nil {
			return nil, err
		}
	}
	for _, d := range all {
		if err := s.held(d, found); err != nil {
			return nil, err
		}
		if boots, err := s.booted(d); err != nil {
			return nil, err
		} else if boots {
			found[d.name] = append(found[d.name], use{taskcatalog.CodeDiskBacksSystem, "where the firmware booted from"})
		}
	}
	for name := range found {
		slices.SortStableFunc(found[name], func(a, b use) int { return slices.Index(severity, a.code) - slices.Index(severity, b.code) })
	}
	return found, nil
}

var severity = []taskcatalog.Code{
	taskcatalog.CodeDiskBacksSystem, taskcatalog.CodeDiskSwap, taskcatalog.CodeDiskMounted,
	taskcatalog.CodeDiskMultipath, taskcatalog.CodeDiskArrayMember, taskcatalog.CodeDiskHeld,
}

// held records the holders of a disk and its partitions.
func (s system) held(d *disk, found map[string][]use) error {
	for _, part := range append([]string{d.name}, d.partitions...) {
		holders, err := s.Names(path.Join("/sys/class/block", part, "holders"))
		if err != nil {
			return err
		}
		slices.Sort(holders)
		for _, holder := range holders {
			uuid, err := s.text(path.Join(blockDir, holder, "dm/uuid"))
			if err != nil {
				return err
			}
			u := use{taskcatalog.CodeDiskHeld, part + " is held by " + holder}
			switch {
			case strings.HasPrefix(uuid, "mpath-"):
				u.code = taskcatalog.CodeDiskMultipath
			case strings.HasPrefix(holder, "md"):
				u.code = taskcatalog.CodeDiskArrayMember
			}
			found[d.name] = append(found[d.name], u)
		}
	}
	return nil
}
