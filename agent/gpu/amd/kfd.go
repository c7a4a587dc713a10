package amd

import (
	"fmt"
	"strconv"
	"strings"
)

const kfdTopology = "/sys/class/kfd/kfd/topology/nodes"

// kfdNode is a GPU, or a partition, as listed by the kernel's compute driver.
type kfdNode struct {
	pci    string
	gfx    uint64 // 90402 is gfx942
	render uint64 // 128 is /dev/dri/renderD128
}

type kfdNodes []kfdNode

// kfdNodes reads the topology; empty without a machine or KFD.
func (v *Vendor) kfdNodes() kfdNodes {
	if v.machine == nil {
		return nil
	}
	names, err := v.machine.Names(kfdTopology)
	if err != nil {
		return nil
	}
	var all kfdNodes
	for _, name := range names {
		raw, err := v.machine.ReadFile(kfdTopology+"/"+name+"/properties", 64<<10)
		if err != nil {
			continue
		}
		if n, is := parseKFDNode(string(raw)); is {
			all = append(all, n)
		}
	}
	return all
}

// parseKFDNode reads the properties of a node; false for a CPU.
func parseKFDNode(properties string) (kfdNode, bool) {
	value := map[string]uint64{}
	for line := range strings.Lines(properties) {
		if f := strings.Fields(line); len(f) == 2 {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				value[f[0]] = n
			}
		}
	}
	if value["simd_count"] == 0 {
		return kfdNode{}, false
	}
	// The upper bits of the location are the partition's number.
	at := value["location_id"] & 0xffff
	return kfdNode{
		pci:    fmt.Sprintf("%04x:%02x:%02x.%x", value["domain"], at>>8, at>>3&0x1f, at&7),
		gfx:    value["gfx_target_version"],
		render: value["drm_render_minor"],
	}, true
}

// architecture names a GPU's instruction set as compilers do: the stepping is a hexadecimal digit.
func (all kfdNodes) architecture(pci string) string {
	for _, n := range all {
		if n.pci == pci && n.gfx != 0 {
			return fmt.Sprintf("gfx%d%x%x", n.gfx/10000, n.gfx/100%100, n.gfx%100)
		}
	}
	return ""
}
