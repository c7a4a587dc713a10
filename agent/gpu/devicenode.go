package gpu

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// Fixed majors of device files, and the names of the others in /proc/devices.
const (
	majorNVIDIA = 195
	majorDRM    = 226
)

var dynamicNodes = map[string]string{
	"nvidia-uvm": "/dev/nvidia-uvm", "nvidia-caps": "/dev/nvidia-caps", "nvidia-nvlink": "/dev/nvidia-nvlink",
	"nvidia-nvswitch": "/dev/nvidia-nvswitch", "kfd": "/dev/kfd",
}

// parseMajors reads the character devices of /proc/devices: major to name.
func parseMajors(text string) map[uint32]string {
	majors := map[uint32]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "Block" {
			break
		}
		if n, err := strconv.ParseUint(strings.Join(f[:min(1, len(f))], ""), 10, 32); err == nil && len(f) == 2 {
			majors[uint32(n)] = f[1]
		}
	}
	return majors
}

// nodeOf names the device file of a GPU by its device number; empty for any other file.
func nodeOf(m *machine.Machine, rdev uint64, dynamic map[uint32]string) string {
	major, minor := unix.Major(rdev), unix.Minor(rdev)
	switch {
	case major == majorNVIDIA && minor == 255:
		return "/dev/nvidiactl"
	case major == majorNVIDIA && minor == 254:
		return "/dev/nvidia-modeset"
	case major == majorNVIDIA:
		return fmt.Sprintf("/dev/nvidia%d", minor)
	case major == majorDRM:
		return "/dev/dri/" + drmName(m, minor)
	}
	return dynamicNodes[dynamic[major]]
}

// drmName returns the name of a card or a render node. With many devices the minors past the usual
// ranges may be either, so the kernel is asked. Both give access to memory. A card may also belong
// to a management controller; it belongs to a GPU only if State says so.
func drmName(m *machine.Machine, minor uint32) string {
	if to, err := m.Readlink(fmt.Sprintf("/sys/dev/char/%d:%d", majorDRM, minor)); err == nil {
		return path.Base(to)
	}
	if minor >= 128 {
		return fmt.Sprintf("renderD%d", minor)
	}
	return fmt.Sprintf("card%d", minor)
}

// DRMNodes returns the device files of a GPU in the kernel's graphics drivers: the card gives
// access to memory as well as the render node. The list comes from the kernel, because a container
// may have device files that are missing in /dev.
func DRMNodes(m *machine.Machine, pciAddress string) ([]string, error) {
	return drmNodes(m, "/sys/bus/pci/devices/"+pciAddress)
}

// PartitionNodes returns the device files of AMD's partitions, a list for each platform device that
// amdgpu made for a partition. Such a device does not name its GPU.
func PartitionNodes(m *machine.Machine) ([][]string, error) {
	const platform = "/sys/devices/platform"
	names, err := m.Names(platform)
	if err != nil {
		return nil, fmt.Errorf("cannot list the partitions of GPUs: %w", err)
	}
	var all [][]string
	for _, name := range names {
		// amdgpu_xcp.29, or amdgpu_xcp_29 of newer kernels.
		if !strings.HasPrefix(name, "amdgpu_xcp") {
			continue
		}
		nodes, err := drmNodes(m, platform+"/"+name)
		if err != nil {
			return nil, err
		}
		if len(nodes) > 0 {
			all = append(all, nodes)
		}
	}
	return all, nil
}

// drmNodes are the device files of a device in sysfs.
func drmNodes(m *machine.Machine, device string) ([]string, error) {
	names, err := m.Names(device + "/drm") // none without a DRM driver
	if err != nil {
		return nil, fmt.Errorf("cannot list the device files of %s: %w", path.Base(device), err)
	}
	var nodes []string
	for _, name := range names {
		if strings.HasPrefix(name, "card") || strings.HasPrefix(name, "renderD") {
			nodes = append(nodes, "/dev/dri/"+name)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}
