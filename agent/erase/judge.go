package erase

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// judge finds every disk of the task, looks for reasons against each, asks each for its methods and
// opens it. judge writes nothing.
func (e *Erase) judge(ctx context.Context) ([]*unit, error) {
	all, unread, err := e.sys.disks()
	if err != nil {
		return nil, unreadable("this machine's disks", err)
	}
	picked := map[string]bool{}
	for i, name := range e.Params.Disks {
		d, err := find(name, all)
		if err != nil {
			return nil, err
		}
		if unread[d] != nil {
			return nil, unreadable(d.label(), unread[d])
		}
		if picked[d.name] {
			return nil, taskcatalog.Errorf(taskcatalog.CodeDiskListedTwice, "cannot erase %s: the task names it twice", d.label())
		}
		picked[d.name] = true
		e.targets = append(e.targets, &target{disk: d, index: i, out: taskcatalog.ErasedDisk{
			Name: d.name, Serial: taskcatalog.Clean(collapseSpaces(d.serial), 128), WWN: taskcatalog.Clean(d.wwn, 128),
			NGUID: taskcatalog.Clean(d.nguid, 64),
			Model: taskcatalog.Clean(collapseSpaces(d.model), 128), SizeBytes: d.size, OfBytes: uint64(d.size),
			Method: taskcatalog.MethodNone, Verification: taskcatalog.OverwriteNone,
		}})
	}
	uses, err := e.sys.inUse(all)
	if err != nil {
		return nil, unreadable("what uses this machine's disks", err)
	}
	for _, t := range e.targets {
		if err := e.reasons(t.disk, uses[t.name]); err != nil {
			return nil, err
		}
	}
	units, err := e.units(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range e.targets {
		if err := e.open(t); err != nil {
			return nil, err
		}
	}
	return units, nil
}

func unreadable(what string, err error) error {
	return taskcatalog.Errorf(taskcatalog.CodeDiskUnreadable, "cannot read all properties of %s that the erase needs: %s", what,
		taskcatalog.Clean(err.Error(), 400))
}

// reasons returns why a disk must not be erased.
func (e *Erase) reasons(d *disk, uses []use) error {
	no := func(code taskcatalog.Code, format string, args ...any) error {
		return taskcatalog.Errorf(code, "cannot erase "+strings.ReplaceAll(d.label(), "%", "%%")+": "+format, args...)
	}
	switch {
	case d.size == 0:
		return no(taskcatalog.CodeDiskNoSize, "%s: format it with sectors of 512 or 4096 bytes (sg_format, nvme format), or replace it",
			taskcatalog.DiskNoSize)
	case !local(d.transport):
		return no(taskcatalog.CodeDiskNotLocal,
			"its transport is %s, and only disks on PCIe, SATA, SAS and eMMC of this machine are erased",
			taskcatalog.Clean(d.transport, 64))
	case len(d.controllers) > 1:
		return no(taskcatalog.CodeDiskMultipath, "%s are paths to it", strings.Join(d.controllers, ", "))
	case d.transport == "pcie" && len(d.controllers) == 0:
		return no(taskcatalog.CodeDiskUnreadable, "it has no NVMe controller")
	case emulator(d) != "" && !e.Params.DPUEmulatedOK:
		return no(taskcatalog.CodeDiskDPUEmulated,
			"%s emulates this disk, and the data are stored elsewhere (set dpu_emulated_ok if the SKU allows this)", emulator(d))
	case d.readOnly:
		return no(taskcatalog.CodeDiskReadOnly, "it is read-only")
	case len(uses) > 0:
		return no(uses[0].code, "%s", taskcatalog.Clean(uses[0].what, 200))
	}
	return nil
}

// dpus are the PCI vendors of DPUs and cloud cards that keep the data of an emulated NVMe
// controller elsewhere.
var dpus = map[string]string{
	"15b3": "an NVIDIA DPU", "1dd8": "an AMD Pensando DPU", "177d": "a Marvell DPU",
	"1d0f": "an Amazon Nitro card", "1ae0": "a Google card", "1414": "a Microsoft card", "1ded": "an Alibaba card",
}

// emulator names the device that emulates a disk; "" for a real disk.
func emulator(d *disk) string {
	if d.transport != "pcie" {
		return ""
	}
	if by := dpus[strings.ToLower(d.pciVendor)]; by != "" {
		return by
	}
	if model := strings.ToUpper(d.model); strings.Contains(model, "SNAP") || strings.Contains(model, "BLUEFIELD") ||
		strings.Contains(model, "ELASTIC BLOCK") {
		return "a DPU, by its model " + taskcatalog.Clean(collapseSpaces(d.model), 64) + ","
	}
	return ""
}

// open opens a disk for this process alone.
func (e *Erase) open(t *target) error {
	var err error
	t.device, err = e.Devices.Open(t.name, t.number)
	switch {
	case errors.Is(err, unix.EBUSY):
		t.device = nil
		return taskcatalog.Errorf(taskcatalog.CodeDiskInUse, "cannot erase %s: the kernel says that it, or a partition of it, is in use",
			t.disk.label())
	case err != nil:
		t.device = nil
		return unreadable(t.disk.label(), err)
	}
	return e.verifyDevice(t)
}

// verifyDevice verifies that the open device is the judged disk.
func (e *Erase) verifyDevice(t *target) error {
	number, err1 := t.device.Number()
	size, err2 := t.device.Size()
	err3 := e.Devices.Is(t.name, t.number, true)
	if err := errors.Join(err1, err2, err3); err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeDiskChanged, "cannot erase %s: %s", t.disk.label(), taskcatalog.Clean(err.Error(), 300))
	}
	if number != t.number || size != t.size {
		return taskcatalog.Errorf(taskcatalog.CodeDiskChanged, "cannot erase %s: what is open is device %s of %d bytes", t.disk.label(),
			number, size)
	}
	return nil
}

// rejudge judges a disk anew, right before the disk is touched.
func (e *Erase) rejudge(t *target) error {
	changed := func(what string) error {
		return taskcatalog.Errorf(taskcatalog.CodeDiskChanged, "cannot erase %s: %s since it was judged", t.disk.label(),
			taskcatalog.Clean(what, 300))
	}
	now, err := e.sys.disk(t.name)
	switch {
	case err != nil:
		return unreadable(t.disk.label(), err)
	case now == nil:
		return changed("it is gone")
	}
	was, is := *t.disk, *now
	was.partitions, is.partitions = nil, nil // the partitions of an erased disk vanish
	if was.name != is.name || was.number != is.number || was.path != is.path || was.serial != is.serial || was.wwn != is.wwn ||
		was.nguid != is.nguid ||
		was.model != is.model || was.size != is.size || was.transport != is.transport || was.nsid != is.nsid ||
		was.pciVendor != is.pciVendor ||
		was.readOnly != is.readOnly || !slices.Equal(was.controllers, is.controllers) {
		return changed("it has become another")
	}
	uses, err := e.sys.inUse([]*disk{now})
	if err != nil {
		return unreadable(t.disk.label(), err)
	}
	if len(uses[t.name]) > 0 {
		return changed("it came into use, " + uses[t.name][0].what + ",")
	}
	return e.verifyDevice(t)
}

var namespaceName = lazyregexp.New(`^nvme([0-9]+)(?:c[0-9]+)?n([0-9]+)$`)

// namespaces returns the namespaces that the kernel shows of a controller, by the names of their
// disks.
func (s system) namespaces(controller string) ([]string, error) {
	entries, err := s.Names(path.Join("/sys/class/nvme", controller))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if m := namespaceName.FindStringSubmatch(entry); m != nil {
			all = append(all, "nvme"+m[1]+"n"+m[2])
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
