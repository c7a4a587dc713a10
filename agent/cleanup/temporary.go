package cleanup

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// temporary empties /tmp and /var/tmp. The private directories of running services stay, since a
// service would not get another before its next start; entries of unknown users in them are
// removed.
func (c *cleanup) temporary(ctx context.Context) error {
	boot, err := c.m.BootID()
	if err != nil {
		return err
	}
	var all error
	for _, top := range []string{"/tmp", "/var/tmp"} {
		var own []string
		all = errors.Join(all, c.empty(ctx, "temporary", top, machine.Tree{
			Remove: func(e *machine.Entry) bool { return !e.LostAndFound() },
			Enter: func(e *machine.Entry) bool {
				if e.Depth() == 1 && SystemTemporary(e, boot) {
					own = append(own, path.Join(top, e.Name))
					return false
				}
				return true
			},
		}))
		for _, dir := range own {
			all = errors.Join(all, c.empty(ctx, "temporary", dir, machine.Tree{Remove: func(e *machine.Entry) bool {
				return !c.known.UID(e.Stat.Uid)
			}}))
			c.dispose("temporary", dir, taskcatalog.ActionKept, machine.Tally{}, "the system's own")
		}
	}
	return all
}

// SystemTemporary reports whether a directory in /tmp is created by the system at boot or for a
// running service. The owner must be root, so that no other user's directory of the same name
// counts.
func SystemTemporary(e *machine.Entry, boot string) bool {
	if !e.IsDir() || e.Stat.Uid != 0 {
		return false
	}
	switch e.Name {
	case ".X11-unix", ".ICE-unix", ".XIM-unix", ".font-unix", ".Test-unix":
		return true
	case SnapPrivateTmp:
		return OwnDirectory(e)
	}
	return strings.HasPrefix(e.Name, "systemd-private-"+strings.ReplaceAll(boot, "-", "")+"-") && OwnDirectory(e)
}

// SnapPrivateTmp holds a directory for each snap, with the snap's /tmp inside.
const SnapPrivateTmp = "snap-private-tmp"

// OwnDirectory reports whether an entry is a directory that only root may enter.
func OwnDirectory(e *machine.Entry) bool {
	return e.IsDir() && e.Stat.Uid == 0 && e.Stat.Mode&0o077 == 0
}
