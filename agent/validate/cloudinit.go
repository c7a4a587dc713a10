package validate

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// cloudInitOff is the baseline's object for a machine on which cloud-init was off.
const cloudInitOff = "cloud-init/off"

// lookCloudInit compares the files that cloud-init keeps and executes as root if it runs at a boot,
// and the files of Hostler's own first boot.
//
// The comparison is possible only if cloud-init is off. A running cloud-init writes its pickled
// data source (obj.pkl) at each boot, each time with other bytes: sets in another order, MIME
// boundaries, settings merged at the previous boot. Any byte may be code, so no part can be left
// out of the comparison. If cloud-init is off, nothing there changes by itself, and even a single
// changed byte is a finding.
func lookCloudInit(ctx context.Context, v *validation) ([]item, error) {
	comes, err := firstboot.CloudInitWillRun(v.m)
	if err != nil {
		return nil, err
	}
	wasOff := v.base != nil && slices.Contains(v.base.Objects, cloudInitOff)
	switch {
	case comes && !wasOff:
		return nil,
			errors.New("cloud-init is not off: at each boot it runs the content of /var/lib/cloud and writes it again (after its first boot has ended: touch " + firstboot.DisableFile + " on the machine, then hostler node baseline retake)")
	case v.base != nil && !wasOff:
		return nil, errors.New("not in the baseline (take a new baseline: hostler node baseline retake)")
	}
	names, err := v.tree(ctx, []string{"/var/lib/cloud", "/var/lib/hostler-bootstrap"}, func(string, uint32) bool { return false })
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	// The records of how layers ended are plain text for the report, but only while they are files:
	// through a link, the writer would write elsewhere at the next boot.
	text := firstboot.Records(v.m)
	records = slices.DeleteFunc(records, func(f taskcatalog.BaselineFile) bool {
		return slices.Contains(text, f.Path) && machine.IsContent(f.Digest)
	})
	items := v.compareFiles("cloud_init", records, func(name string) bool { return rowOf(name) == "cloud_init" }, rowOf)
	if comes {
		return append(items, item{row: "cloud_init", key: "cloud-init", differs: true, finding: taskcatalog.Finding{
			Detail: "cloud-init was off, and runs at the next boot", NextAction: taskcatalog.ActionReimage,
		}}), nil
	}
	return append(items, item{row: "cloud_init", key: cloudInitOff}), nil
}
