package onboarding

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

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
