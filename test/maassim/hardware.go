package maassim

import (
	"fmt"
	"slices"
)

// Hardware is a physical machine in the rack, whether or not MAAS knows it. The address of its BMC
// identifies it.
type Hardware struct {
	Serial, Vendor, Product string
	Architecture            string // amd64/generic where empty
	CPUs, MemoryMiB         int
	NICs                    []NIC
	Disks                   []Disk
	BMC                     BMC
	NoPXE                   bool    // never boots from the network
	Guest                   Guest   // stands in for the hardware once installed; simulated where nil
	Timing                  *Timing // the region's where nil
}

// BMC holds the address and the credentials that switch a machine's power.
type BMC struct{ Address, User, Password string }

// NIC is a network card. The first card is the boot card.
type NIC struct {
	Name, MAC string
	Network   int // index into the region's networks
	Speed     int // Mbit/s
	Unplugged bool
}

// Disk is a block device as the commissioning scripts find it. Size is in bytes.
type Disk struct {
	Name, Model, Serial, IDPath string
	Size                        int64
}

// boss reports whether the disk is a boot card.
func (d Disk) boss() bool { return d.Model == bossModel }

const bossModel = "DELLBOSS VD"

// Box returns ordinary hardware number n: two network cards, a boot card and two data disks. All
// identifiers are unique to n and follow from n alone.
func Box(n int) Hardware {
	serial := fmt.Sprintf("BX%05d", n)
	disk := func(name, model, kind string, i int, size int64) Disk {
		s := fmt.Sprintf("%s-%s%d", serial, kind, i)
		return Disk{Name: name, Model: model, Serial: s, IDPath: "/dev/disk/by-id/" + kind + "-" + s, Size: size}
	}
	return Hardware{
		Serial: serial, Vendor: "Dell Inc.", Product: "PowerEdge XE9680", CPUs: 112, MemoryMiB: 2 << 20,
		NICs: []NIC{
			{Name: "eno8303", MAC: fmt.Sprintf("02:00:5e:%02x:%02x:01", n>>8&0xff, n&0xff), Speed: 25000},
			{Name: "eno8403", MAC: fmt.Sprintf("02:00:5e:%02x:%02x:02", n>>8&0xff, n&0xff), Speed: 25000},
		},
		Disks: []Disk{
			disk("nvme0n1", "SAMSUNG MZWLO3T8HCLS", "nvme", 0, 3840755982336),
			disk("nvme1n1", "SAMSUNG MZWLO3T8HCLS", "nvme", 1, 3840755982336),
			disk("sda", bossModel, "boss", 0, 480036519936),
		},
		BMC: BMC{Address: fmt.Sprintf("10.9.%d.%d", n>>8&0xff, n&0xff), User: "root", Password: "bmc-" + serial},
	}
}

// metal is a piece of hardware with its current state.
type metal struct {
	Hardware
	on     bool
	users  []string // the users that MAAS made on the BMC, as user:password
	hostUp bool     // an installed system runs and is reachable
	boots  int
}

// admits reports whether the BMC accepts the credentials.
func (h *metal) admits(user, password string) bool {
	return (user == h.BMC.User && password == h.BMC.Password) || slices.Contains(h.users, user+":"+password)
}

// switchTo switches the power, or cycles it if on is true and the power is on. The running system
// stops. Hardware that is switched on boots from the network.
func (h *metal) switchTo(on bool) {
	if on {
		h.boots++
	}
	h.on, h.hostUp = on, false
	if h.Guest != nil {
		h.Guest.Switch(false)
	}
}

// PlugIn puts hardware into the rack; MAAS does not know it yet. The new hardware replaces hardware
// at the same BMC address and is switched off.
func (r *Region) PlugIn(hardware ...Hardware) {
	defer r.enter()()
	for _, h := range hardware {
		r.metals[h.BMC.Address] = &metal{Hardware: h}
	}
}

// Mend changes the hardware at a BMC address, as a person in the data centre would. MAAS sees the
// change at the next commissioning. An unknown address is an error.
func (r *Region) Mend(address string, change func(*Hardware)) error {
	defer r.enter()()
	h, ok := r.metals[address]
	if !ok {
		return fmt.Errorf("cannot mend hardware at %s: nothing stands there", address)
	}
	change(&h.Hardware)
	return nil
}

// metal returns the hardware behind the machine's power parameters, nil if there is none.
func (m *machine) metal() *metal {
	if h, ok := m.region.metals[m.powerParam("power_address")]; ok {
		return h
	}
	if m.powerType != "" && m.powerType != "manual" {
		return nil
	}
	for _, h := range m.region.metals {
		if m.has(h) {
			return h
		}
	}
	return nil
}

// has reports whether the machine has a network card of the hardware.
func (m *machine) has(h *metal) bool {
	return slices.ContainsFunc(m.interfaces, func(i *iface) bool {
		return slices.ContainsFunc(h.NICs, func(n NIC) bool { return n.MAC == i.mac })
	})
}

// identity returns the machine that the hardware boots as: the machine with a MAC address of the
// hardware, else the machine with its BMC address and no network card yet.
func (r *Region) identity(h *metal) *machine {
	for _, m := range r.machines {
		if m.has(h) {
			return m
		}
	}
	for _, m := range r.machines {
		if len(m.interfaces) == 0 && m.powerParam("power_address") == h.BMC.Address {
			return m
		}
	}
	return nil
}
