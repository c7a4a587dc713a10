package facts

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	adapters = "/sys/class/infiniband"
	// maxVPD is the maximum size of a function's vital product data, in bytes.
	maxVPD = 32 << 10
)

// fabrics reports whether NVSwitches join the GPUs, and the fastest network between nodes or GPUs.
// Unknown values are missing.
func fabrics(m *machine.Machine, f taskcatalog.Facts) (map[string]string, error) {
	onBus := slices.ContainsFunc(f.PCI, nvswitch)
	bridges, unread := bridges(m, f)
	if unread && !onBus {
		return nil, nil
	}
	k := map[string]string{"gpu.fabric": "none"}
	if onBus || len(bridges) > 0 {
		k["gpu.fabric"] = "nvlink"
	}
	layers, err := linkLayers(m, bridges)
	if err != nil {
		return k, err
	}
	switch ethernet := func(d taskcatalog.PCIDevice) bool { return strings.HasPrefix(d.Class, "0200") }; {
	case layers["InfiniBand"]:
		k["fabric.type"] = "infiniband"
	case layers["Ethernet"]:
		k["fabric.type"] = "roce"
	case onBus:
		k["fabric.type"] = "nvlink"
	case slices.ContainsFunc(f.PCI, ethernet):
		k["fabric.type"] = "ethernet"
	default:
		k["fabric.type"] = "none"
	}
	return k, nil
}

// nvswitch reports whether a function is an NVSwitch on the host's bus, as up to the third
// generation.
func nvswitch(d taskcatalog.PCIDevice) bool { return d.Class == "068000" && d.Vendor == "10de" }

// bridges are the cards that manage the NVSwitches of an NVLink 5 board (HGX B200, HGX B300). These
// switches are on no bus of the host; the host sees InfiniBand functions of a ConnectX-7 instead.
// The board's maker marks the cards in their vital product data. All functions of such a card are
// the board's own, and none leads to another node.
func bridges(m *machine.Machine, f taskcatalog.Facts) (cards map[string]bool, unread bool) {
	if !slices.ContainsFunc(f.PCI, func(d taskcatalog.PCIDevice) bool { return GPUVendor(d) == "nvidia" }) {
		return nil, false
	}
	cards = map[string]bool{}
	for _, d := range f.PCI {
		if d.Vendor != "15b3" || !strings.HasPrefix(d.Class, "0207") {
			continue
		}
		vpd, err := m.ReadFile(path.Join(pciDevices, d.Address, "vpd"), maxVPD)
		switch {
		case bytes.Contains(vpd, []byte("SW_MNG")):
			cards[card(d.Address)] = true
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			unread = true
		}
	}
	return cards, unread && len(cards) == 0
}

// card is a PCI address without the function.
func card(address string) string {
	slot, _, _ := strings.Cut(address, ".")
	return slot
}

// FabricAdapters lists the InfiniBand and RoCE adapters whose ports lead off the machine, as
// directories of sysfs, and the addresses of the InfiniBand functions on the bus that do and have no
// adapter: their driver does not work.
func FabricAdapters(m *machine.Machine) (dirs, without []string, err error) {
	bus, err := pci(m)
	if err != nil {
		return nil, nil, err
	}
	board, unread := bridges(m, taskcatalog.Facts{PCI: bus})
	if unread {
		return nil, nil, errors.New("cannot read the vital product data of an InfiniBand function: it may belong to the GPU board")
	}
	dirs, err = offBoard(m, board)
	if err != nil {
		return nil, nil, err
	}
	driven := map[string]bool{}
	for _, dir := range dirs {
		driven[linkBase(m, path.Join(dir, "device"))] = true
	}
	for _, d := range bus {
		virtual := linkBase(m, path.Join(pciDevices, d.Address, "physfn")) != "" // an adapter's port needs none of them
		if strings.HasPrefix(d.Class, "0207") && !virtual && !board[card(d.Address)] && !driven[d.Address] {
			without = append(without, d.Address)
		}
	}
	return dirs, without, nil
}

// offBoard lists the adapters that are none of the GPU board's own.
func offBoard(m *machine.Machine, bridges map[string]bool) ([]string, error) {
	names, err := m.Names(adapters)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var dirs []string
	for _, name := range names {
		if !bridges[card(linkBase(m, path.Join(adapters, name, "device")))] {
			dirs = append(dirs, path.Join(adapters, name))
		}
	}
	return dirs, nil
}

// linkLayers are the link layers of adapter ports that lead off the machine.
func linkLayers(m *machine.Machine, bridges map[string]bool) (map[string]bool, error) {
	dirs, err := offBoard(m, bridges)
	if err != nil {
		return nil, err
	}
	layers := map[string]bool{}
	for _, dir := range dirs {
		ports, err := m.Names(path.Join(dir, "ports"))
		if err != nil {
			return nil, err
		}
		for _, port := range ports {
			layers[attribute(m, path.Join(dir, "ports", port, "link_layer"))] = true
		}
	}
	return layers, nil
}
