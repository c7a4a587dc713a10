package tasks

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// cloudInitOff is the object that a baseline has if cloud-init was off.
const cloudInitOff = "cloud-init/off"

// lookCloudInit compares what cloud-init keeps and carries out as root where it runs
// at a boot, and what Hostler's own first boot keeps.
//
// It can be compared only where cloud-init is off. Where it runs, it writes its
// pickled data source (obj.pkl) anew at each boot, with other bytes each time: sets in
// another order, MIME boundaries, settings that the boot before had merged. Any byte
// of it may be code, so there is no part that could be left out of a comparison. Off,
// nothing there changes, and a single byte that does is somebody's.
func lookCloudInit(ctx context.Context, v *validation) ([]item, error) {
	comes, err := firstboot.CloudInitComes(v.m)
	if err != nil {
		return nil, err
	}
	wasOff := v.base != nil && slices.Contains(v.base.Objects, cloudInitOff)
	switch {
	case comes && !wasOff:
		return nil, errors.New("cloud-init is not off: at each boot it carries out what is in /var/lib/cloud, and writes it anew (once its first boot is through: touch " + firstboot.Off + " on the machine, then hostler node baseline retake)")
	case v.base != nil && !wasOff:
		return nil, errors.New("the baseline does not have it (take a new one: hostler node baseline retake)")
	}
	names, err := v.tree(ctx, []string{"/var/lib/cloud", "/var/lib/hostler-bootstrap"}, func(string, uint32) bool { return false })
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	// How layers ended is nothing but text for the report, while it is a file: through a
	// link, what writes it at the next boot would write elsewhere.
	text := firstboot.Records(v.m)
	records = slices.DeleteFunc(records, func(f taskcatalog.BaselineFile) bool {
		return slices.Contains(text, f.Path) && machine.IsContent(f.Digest)
	})
	items := v.compareFiles("cloud_init", records, func(name string) bool { return rowOf(name) == "cloud_init" }, rowOf)
	if comes {
		return append(items, item{row: "cloud_init", key: "cloud-init", differs: true, finding: taskcatalog.Finding{
			Detail: "it was off, and runs at the next boot", NextAction: taskcatalog.ActionReimage,
		}}), nil
	}
	return append(items, item{row: "cloud_init", key: cloudInitOff}), nil
}
