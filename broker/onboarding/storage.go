package onboarding

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// configureStorage compares the machine with the SKU and prepares the boot disk. MAAS permits
// storage changes in Ready alone, before the machine is claimed.
func (c *Chains) configureStorage(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	switch {
	case at.marked():
		return nil // done before the claim
	case at.Status == maas.Commissioning, at.Status == maas.Testing:
		return chain.Again(patience(r, lookAgain), "machine is %s", at.StatusName)
	case at.Status == maas.New && (at.free() || at.leftover()): // released, and never commissioned: MAAS then does not know its disks
		return c.recommission(ctx, at)
	case at.leftover() && at.Status == maas.Ready, s.Recommission &&
		(at.Status == maas.Ready || at.Status == maas.FailedCommissioning || at.Status == maas.FailedTesting) &&
		(at.free() || at.leftover()):
		return c.recommission(ctx, at)
	case at.Status == maas.FailedCommissioning, at.Status == maas.FailedTesting:
		if s.Failed != "" && (at.free() || at.leftover()) {
			return c.recommission(ctx, at)
		}
		return at.notCommissioned(ctx)
	case at.Status != maas.Ready || !at.free():
		return at.refuseForeign("its storage can be prepared only in Ready")
	case at.Locked:
		return at.locked()
	}
	boot, err := fits(s.SKU, at.Machine)
	if err != nil {
		if s.Failed != "" { // a person has repaired the machine: MAAS notices when it commissions again
			return c.recommission(ctx, at)
		}
		s.Failed = failedHardware
		return err
	}
	s.Failed = ""
	if at.BootDisk == nil || at.BootDisk.ID != boot.ID {
		if err := at.region.SetBootDisk(ctx, at.SystemID, boot.ID); err != nil {
			return at.changeFault(ctx, err)
		}
		return chain.Again(next, "machine boots from %s", boot.Serial)
	}
	if err := at.region.SetFlatLayout(ctx, at.SystemID); err != nil {
		return at.changeFault(ctx, err)
	}
	s.BootDisk, s.Disks = &boot, nil
	for _, d := range at.Disks {
		s.Disks = append(s.Disks, deviceOf(d))
	}
	r.Note(map[string]any{"boot_disk": boot, "disks": s.Disks}, "the machine boots from %s", boot.Serial)
	return nil
}

// recommission has MAAS commission the machine again, or test it again if its tests failed.
func (c *Chains) recommission(ctx context.Context, at *place) error {
	at.state.Failed, at.state.Recommission = "", true
	if err := c.startCommissioning(ctx, at); err != nil {
		return err
	}
	if at.Status == maas.FailedTesting {
		return chain.Again(patience(at.run, lookAgain), "machine is tested again")
	}
	return chain.Again(patience(at.run, lookAgain), "machine is commissioned again")
}

// fits returns the boot disk of a machine that matches the SKU, or why the machine does not match.
func fits(sku broker.SKU, m maas.Machine) (Device, error) {
	bad := func(code string, details any, format string, args ...any) (Device, error) {
		return Device{}, chain.Fail(mismatch, "machine "+m.SystemID+" is no "+sku.ID+": "+format, args...).With(code, details)
	}
	var missing []string
	for _, name := range sku.NICs {
		if !slices.ContainsFunc(m.Interfaces, func(i maas.Interface) bool { return i.Name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return bad("nic_missing", map[string]any{"missing": missing, "has": names(m.Interfaces)}, "the machine has no interface %s",
			strings.Join(missing, ", "))
	}
	rule, err := regexp.Compile("(?i)" + sku.BootDisk.Pattern)
	if err != nil {
		return Device{}, chain.Fail(inputError, "the boot disk rule of SKU %s is not a regular expression", sku.ID).With("sku_invalid", nil)
	}
	var all, match []Device
	for _, d := range m.Disks {
		device := deviceOf(d)
		all = append(all, device)
		if rule.MatchString(d.Model) || rule.MatchString(d.Name) || rule.MatchString(d.IDPath) {
			match = append(match, device)
		}
	}
	switch {
	case len(match) == 0:
		return bad("boot_disk_missing", map[string]any{"pattern": sku.BootDisk.Pattern, "disks": all},
			"none of its %d disks matches the boot disk rule (%s)", len(all), sku.BootDisk.Pattern)
	case len(match) > 1 && sku.BootDisk.Pick == broker.PickNone:
		return bad("boot_disk_ambiguous", map[string]any{"pattern": sku.BootDisk.Pattern, "disks": match},
			"%d of its disks match the boot disk rule, and the SKU does not say which to pick", len(match))
	}
	return slices.MinFunc(match, func(a, b Device) int {
		switch sku.BootDisk.Pick {
		case broker.PickSmallest:
			return cmp.Or(cmp.Compare(a.Size, b.Size), a.ID-b.ID)
		case broker.PickLargest:
			return cmp.Or(cmp.Compare(b.Size, a.Size), a.ID-b.ID)
		}
		return a.ID - b.ID
	}), nil
}

func deviceOf(d maas.Disk) Device {
	return Device{
		ID: d.ID, Name: taskcatalog.Clean(d.Name, 64), Model: taskcatalog.Clean(d.Model, 128), Serial: taskcatalog.Clean(d.Serial, 128),
		IDPath: taskcatalog.Clean(d.IDPath, 256), Size: d.Size,
	}
}

func names(all []maas.Interface) []string {
	out := []string{}
	for _, i := range all {
		out = append(out, taskcatalog.Clean(i.Name, 32))
	}
	return out
}
