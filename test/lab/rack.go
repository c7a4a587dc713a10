package lab

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

// Rack is a simulated region with one machine, played by a guest. The machine is switched off, and
// MAAS does not know it yet.
type Rack struct {
	*Region
	Metal *Metal
	Box   maassim.Hardware
}

// NewRack serves a region with box in its rack, played by a guest with the given configuration. The
// box's disks are the guest's: a boot disk and the drives. Commissioning and installation take
// seconds; the installed system runs at its own speed. The caller must Close the Rack.
func NewRack(image *qemu.Image, config qemu.Config, box maassim.Hardware, drives ...*Drive) (*Rack, error) {
	sim := &maassim.Region{Version: "3.6", Seed: uint64(time.Now().UnixNano()), Timing: maassim.Usual.Faster(200)}
	// The lowest address that the region can give is the guest's own, as the machine's is where MAAS
	// configures it.
	sim.Networks = []maassim.Network{{CIDR: "10.0.2.8/29", Gateway: "10.0.2.9", DHCP: true}}
	sim.Timing.NodeTimeout = 30 * time.Minute // MAAS's own timeout
	region, err := ServeRegion(sim)
	if err != nil {
		return nil, err
	}
	config.Serial = box.Serial + "-boss"
	box.Disks = []maassim.Disk{{
		Name: "sda", Model: "DELLBOSS VD", Serial: config.Serial, IDPath: "/dev/disk/by-id/virtio-" + config.Serial,
		Size: qemu.DiskSize,
	}}
	for i, d := range drives {
		box.Disks = append(box.Disks, d.disk(fmt.Sprintf("nvme%dn1", i)))
	}
	r := &Rack{Region: region}
	if r.Metal, err = newMetal(image, config, func() string { return region.At(qemu.HostAddress) }, drives...); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	box.Guest = r.Metal
	r.Box = box
	sim.PlugIn(box)
	return r, nil
}

// Site returns an operator's hostler commands that make the region a site ready for its machine.
// Site writes the files that the commands name beside the lab's own.
func (r *Rack) Site(l *Lab, name string) ([][]string, error) {
	key, password := l.Path("maas.key"), l.Path("bmc.pw")
	if err := errors.Join(os.WriteFile(key, []byte(r.APIKey()+"\n"), 0o600),
		os.WriteFile(password, []byte(r.Box.BMC.Password+"\n"), 0o600)); err != nil {
		return nil, err
	}
	return [][]string{
		{
			"site", "create", name, "--region-code", "eu-1", "--api-base-url", r.At("127.0.0.1") + "/MAAS", "--pxe-iface", "ens19",
			"--node-pxe-iface", "eno8303",
		},
		{"site", "credentials", name, "--maas-token-file", key, "--power-user", r.Box.BMC.User, "--power-password-file", password},
	}, nil
}

// Of returns the machine with a host name; false if MAAS has none.
func (r *Rack) Of(hostname string) (maassim.Machine, bool) {
	for _, m := range r.Machines() {
		if m.Hostname == hostname {
			return m, true
		}
	}
	return maassim.Machine{}, false
}

// Close ends the guest and the region.
func (r *Rack) Close() error {
	r.Metal.Close()
	return r.Region.Close()
}
