package validate

import (
	"context"
	"path"
	"strings"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// privateTmp matches the name, after the boot's id, of the directory that systemd creates for a
// unit with a /tmp of its own.
var privateTmp = lazyregexp.New(`^([A-Za-z0-9@:._\\-]+\.service)-[A-Za-z0-9]{6}$`)

// snapTmp matches the name of the directory that snapd creates for a snap in snap-private-tmp.
var snapTmp = lazyregexp.New(`^snap\.[a-z0-9][a-z0-9_-]*$`)

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
		items, err := v.entriesWithLost(ctx, "temporary", "temporary/", dir, taskcatalog.ActionStorageCleanup, func(e *machine.Entry) bool {
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
			return dir == own && e.Name == "tmp" && e.IsDir() && e.Stat.Uid == 0 || e.Stat.Uid != 0 && e.Stat.Uid < 1000 &&
				v.knownUID(e.Stat.Uid) || host.DynamicUser(e.Stat.Uid)
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
