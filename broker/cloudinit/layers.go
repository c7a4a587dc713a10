package cloudinit

import (
	"embed"
	"fmt"
	"net/netip"
	"strings"
)

//go:embed scripts
var scripts embed.FS

func script(name string) string {
	text, err := scripts.ReadFile("scripts/" + name + ".sh")
	if err != nil {
		panic(err) // the script is compiled in
	}
	return string(text)
}

// The layers, by the names under which the machine records their results.
const (
	LayerSite         = "site"
	LayerAgent        = "agent"
	LayerHardwareSync = "hw-sync"
	LayerDisks        = "disks"
	LayerRoCE         = "roce"
	LayerDeployUser   = "deploy-user"
)

const layerUnit = "hostler-layer@.service"

// Disk is a disk to make a file system on, identified by its serial.
type Disk struct {
	Serial string
	Size   int64 // bytes
}

// RoCE is an interface with an address of its own network.
type RoCE struct {
	Interface string
	Address   netip.Prefix
}

// layers puts all layers but the agent's and the deploy user's into the data part, and returns the
// names of all layers in their order.
func (in *Input) layers(d *data) ([]string, error) {
	var names []string
	run := func(name, target, values, order string) {
		names = append(names, name)
		d.file("0644", bootstrapDir+"layer-"+name, script(name))
		if values != "" {
			d.file("0644", bootstrapDir+name, values)
		}
		unit := "hostler-layer@" + name + ".service"
		if order != "" {
			d.file("0644", unitDir+unit+".d/order.conf", "[Unit]\n"+order)
		}
		d.wanted(target, unit, layerUnit)
	}
	if in.SiteBundle != "" {
		url, digest, _ := strings.Cut(in.SiteBundle, bundleMark)
		run(LayerSite, "multi-user.target", url+" "+digest+"\n", "")
	}
	names = append(names, LayerAgent)
	if in.HardwareSync {
		// cloud-init carries out MAAS's vendor-data in its last stage, after multi-user.target: a
		// unit that waits for this stage cannot be wanted by multi-user.target.
		run(LayerHardwareSync, "cloud-init.target", "", "After=cloud-final.service\n")
	}
	if len(in.Disks) > 0 {
		var list, mounts strings.Builder
		for i, disk := range in.Disks {
			fmt.Fprintf(&list, "%d %s %d\n", i+1, disk.Serial, disk.Size)
			// A share that an earlier boot made is in fstab, and may be half-mounted otherwise.
			fmt.Fprintf(&mounts, " share%d.mount", i+1)
		}
		if in.OverwriteSignatures {
			d.file("0644", bootstrapDir+"disks-overwrite", "yes\n")
		}
		run(LayerDisks, "multi-user.target", list.String(), "After=hostler-layer@site.service"+mounts.String()+"\n")
	}
	if len(in.RoCE) > 0 {
		var list strings.Builder
		for i, r := range in.RoCE {
			fmt.Fprintf(&list, "%d %s %s %s %s\n", firstTable+i, r.Interface, r.Address.Addr(), r.Address.Masked(), peer(r.Address))
		}
		// networkd removes foreign rules when it restarts.
		run(LayerRoCE, "multi-user.target", list.String(), "After=systemd-networkd.service\nPartOf=systemd-networkd.service\n")
	}
	if in.DeployUser != nil {
		names = append(names, LayerDeployUser)
	}
	if len(d.start) == 0 {
		return names, nil
	}
	d.file("0755", bootstrapDir+"layer", script("layer"))
	return names, d.unit(layerUnit, unitData{})
}

// firstTable is the number of the first interface's routing table, and the priority of its rule.
const firstTable = 1000

// peer returns the other end of a link with two addresses, which is the router; "-": the router is
// not known.
func peer(p netip.Prefix) string {
	if p.Bits() != 31 {
		return "-"
	}
	if p.Addr() == p.Masked().Addr() {
		return p.Addr().Next().String()
	}
	return p.Masked().Addr().String()
}
