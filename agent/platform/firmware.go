package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// firmware reads the versions reported by the machine's parts. A part that appears twice with the
// same version counts once: a dual-port drive has two controllers, and a function of a network card
// may have several interfaces.
func (p *Platform) firmware(context.Context) (Reading, error) {
	var r Reading
	var unread error
	for _, part := range []func(*Reading) error{p.bios, p.gpus, p.cards, p.drives} {
		unread = errors.Join(unread, part(&r))
	}
	slices.SortFunc(r.Settings, func(a, b taskcatalog.PlatformSetting) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	r.Settings = slices.Compact(r.Settings)
	return r, unread
}

func (p *Platform) bios(r *Reading) error {
	const dir = "/sys/class/dmi/id"
	for _, name := range []string{"bios_vendor", "bios_version", "bios_date", "bios_release", "ec_firmware_release"} {
		value, err := p.text(path.Join(dir, name))
		switch {
		case err != nil:
			return fmt.Errorf("cannot read the version of the BIOS: %w", err)
		case value != "":
			r.set(name, value)
		case name == "bios_version":
			return errors.New("cannot read the version of the BIOS: the machine does not report it")
		}
	}
	return nil
}

// gpus are the GPUs on the bus with a version shown by the kernel driver; the GPUs' libraries are
// not used here.
func (p *Platform) gpus(r *Reading) error {
	functions, err := p.functions()
	unread := err
	for _, f := range functions {
		if !strings.HasPrefix(f.class, "0x03") && !strings.HasPrefix(f.class, "0x12") {
			continue
		}
		var version string
		switch f.vendor {
		case "0x10de":
			raw, err1 := p.Machine.ReadFile(path.Join("/proc/driver/nvidia/gpus", f.slot, "information"), 64<<10)
			version, err = parseVideoBIOS(string(raw)), err1
		case "0x1002":
			version, err = p.text(path.Join(devices, f.slot, "vbios_version"))
		default:
			continue // the BMC's own screen, or a virtual machine's
		}
		if err == nil && version == "" {
			err = errors.New("its driver does not report it")
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("cannot read the version of GPU %s: %w", f.slot, err))
			continue
		}
		r.set("gpu "+f.slot, version)
	}
	return unread
}

// parseVideoBIOS finds the version; the driver shows ??.??.??.??.?? until the GPU was first opened.
func parseVideoBIOS(text string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); strings.TrimSpace(key) == "Video BIOS" && !strings.Contains(value, "?") {
			return value
		}
	}
	return ""
}

// cards are the network cards, by location, because a bond changes their addresses. For a driver
// without a version, this absence is compared.
func (p *Platform) cards(r *Reading) error {
	const dir = "/sys/class/net"
	names, unread := p.Machine.Names(dir)
	for _, name := range names {
		has, err1 := p.Machine.Has(path.Join(dir, name, "device"))
		virtual, err2 := p.Machine.Has(path.Join(dir, name, "device/physfn"))
		if err := errors.Join(err1, err2); err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		if !has || virtual {
			continue
		}
		place, err1 := p.Machine.Readlink(path.Join(dir, name, "device"))
		port, err2 := p.text(path.Join(dir, name, "dev_port"))
		version, err3 := p.CardFirmware(name)
		if err := errors.Join(err1, err2, err3); err != nil {
			unread = errors.Join(unread, fmt.Errorf("cannot read the version of network card %s: %w", name, err))
			continue
		}
		r.set("nic "+path.Base(place)+" port "+port, version)
	}
	return unread
}

// CardFirmware is the firmware version of a network card as reported by its driver; "" if the
// driver reports none.
func CardFirmware(name string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return unix.ByteSliceToString(info.Fw_version[:]), nil
}

// drives are the NVMe drives on the machine's own bus, by serial number.
func (p *Platform) drives(r *Reading) error {
	const dir = "/sys/class/nvme"
	names, unread := p.Machine.Names(dir)
	for _, name := range names {
		attribute := map[string]string{}
		var err error
		for _, a := range []string{"transport", "serial", "firmware_rev"} {
			value, err1 := p.text(path.Join(dir, name, a))
			attribute[a], err = value, errors.Join(err, err1)
		}
		switch {
		case err == nil && attribute["transport"] != "pcie":
		case err == nil && attribute["firmware_rev"] == "":
			unread = errors.Join(unread, fmt.Errorf("cannot read the version of drive %s: the drive does not report it", name))
		case err != nil:
			unread = errors.Join(unread, fmt.Errorf("cannot read the version of drive %s: %w", name, err))
		default:
			r.set("nvme "+attribute["serial"], attribute["firmware_rev"])
		}
	}
	return unread
}
