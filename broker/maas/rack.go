package maas

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// metadataPort is the port at which rack controllers forward machines' requests to the region.
const metadataPort = 5248

// rack is a rack controller, as far as machines must reach it.
type rack struct {
	SystemID    string   `json:"system_id"`
	IPAddresses []string `json:"ip_addresses"`
}

// rackOf returns host and port at which a machine reaches MAAS: the rack controller that serves the
// VLAN where the machine boots, by an address on one of the machine's own subnets if there is one.
// told is false if MAAS does not say; at is then the region's own address, which is right where
// rack and region are one host.
func (r *Region) rackOf(ctx context.Context, m Machine) (at string, told bool, err error) {
	guess := net.JoinHostPort(r.api.Hostname(), strconv.Itoa(metadataPort))
	if m.BootInterface == nil || m.BootInterface.VLAN == nil {
		return guess, false, nil
	}
	serving := []string{m.BootInterface.VLAN.PrimaryRack, m.BootInterface.VLAN.SecondaryRack}
	if serving[0] == "" && serving[1] == "" {
		return guess, false, nil
	}
	all, err := query[[]rack](ctx, r, "list rack controllers", looks, "rackcontrollers", "", nil)
	if err != nil {
		return "", false, err
	}
	near := subnetsOf(m)
	for _, id := range serving {
		i := slices.IndexFunc(all, func(one rack) bool { return one.SystemID == id && id != "" })
		if i < 0 {
			continue
		}
		if a := nearest(all[i].IPAddresses, near); a.IsValid() {
			return netip.AddrPortFrom(a, metadataPort).String(), true, nil
		}
	}
	return guess, false, nil
}

// subnetsOf returns the machine's own subnets, those of the boot interface first.
func subnetsOf(m Machine) []netip.Prefix {
	var out []netip.Prefix
	for _, i := range append([]Interface{*m.BootInterface}, m.Interfaces...) {
		for _, l := range i.Links {
			if l.Subnet != nil {
				if p, err := netip.ParsePrefix(l.Subnet.CIDR); err == nil {
					out = append(out, p.Masked())
				}
			}
		}
	}
	return out
}

// nearest returns an address on the first subnet that has any, or else the first address; the zero
// Addr: there is none.
func nearest(addresses []string, near []netip.Prefix) netip.Addr {
	reached := Unicast(addresses)
	for _, p := range near {
		for _, a := range reached {
			if p.Contains(a) {
				return a
			}
		}
	}
	if len(reached) == 0 {
		return netip.Addr{}
	}
	return reached[0]
}

// Unicast returns the addresses at which another machine can be reached, each once.
func Unicast(addresses []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range addresses {
		a, err := netip.ParseAddr(text)
		a = a.Unmap()
		if err == nil && a.Zone() == "" && a.IsGlobalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
