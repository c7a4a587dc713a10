package maassim

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Network is a subnet with its VLAN and fabric. Networks that name the same fabric share it.
type Network struct {
	Fabric  string // fabric-0 where empty
	VID     int
	CIDR    string
	Gateway string // none where empty
	DHCP    bool   // unless the region has switched DHCP off altogether
}

type fabric struct {
	id    int
	name  string
	vlans []*vlan
}

type vlan struct {
	id, vid int
	name    string
	fabric  *fabric
	of      []*Network // the networks that declared the VLAN; none for a VLAN made later
}

type subnet struct {
	id            int
	name, gateway string
	prefix        netip.Prefix
	vlan          *vlan
	taken         map[netip.Addr]bool
}

type vlanBody struct {
	VID           int     `json:"vid"`
	MTU           int     `json:"mtu"`
	DHCPOn        bool    `json:"dhcp_on"`
	ExternalDHCP  *string `json:"external_dhcp"`
	RelayVLAN     *string `json:"relay_vlan"`
	PrimaryRack   *string `json:"primary_rack"`
	Fabric        string  `json:"fabric"`
	ID            int     `json:"id"`
	Space         string  `json:"space"`
	SecondaryRack *string `json:"secondary_rack"`
	Name          string  `json:"name"`
	FabricID      int     `json:"fabric_id"`
	ResourceURI   string  `json:"resource_uri"`
}

type subnetBody struct {
	Name                      string   `json:"name"`
	Description               string   `json:"description"`
	VLAN                      vlanBody `json:"vlan"`
	CIDR                      string   `json:"cidr"`
	RDNSMode                  int      `json:"rdns_mode"`
	GatewayIP                 *string  `json:"gateway_ip"`
	DNSServers                []string `json:"dns_servers"`
	AllowDNS                  bool     `json:"allow_dns"`
	AllowProxy                bool     `json:"allow_proxy"`
	ActiveDiscovery           bool     `json:"active_discovery"`
	Managed                   bool     `json:"managed"`
	DisabledBootArchitectures []string `json:"disabled_boot_architectures"`
	Space                     string   `json:"space"`
	ID                        int      `json:"id"`
	ResourceURI               string   `json:"resource_uri"`
}

type fabricBody struct {
	ClassType   *string    `json:"class_type"`
	Name        string     `json:"name"`
	VLANs       []vlanBody `json:"vlans"`
	ID          int        `json:"id"`
	ResourceURI string     `json:"resource_uri"`
}

// addFabric adds a fabric.
func (r *Region) addFabric(name string) *fabric {
	f := &fabric{id: r.id("fabric"), name: name}
	if f.name == "" {
		f.name = fmt.Sprint("fabric-", f.id)
	}
	r.fabrics = append(r.fabrics, f)
	return f
}

func (r *Region) addVLAN(f *fabric, vid int, name string) *vlan {
	v := &vlan{id: r.id("vlan"), vid: vid, name: name, fabric: f}
	switch {
	case name == "" && vid == 0:
		v.name = "untagged"
	case name == "":
		v.name = strconv.Itoa(vid)
	}
	f.vlans = append(f.vlans, v)
	return v
}

func (r *Region) addSubnet(v *vlan, prefix netip.Prefix, gateway string) *subnet {
	s := &subnet{id: r.id("subnet"), name: prefix.String(), gateway: gateway, prefix: prefix, vlan: v, taken: map[netip.Addr]bool{}}
	r.subnets = append(r.subnets, s)
	return s
}

// lay creates the network's fabric, VLAN and subnet. The subnets keep the order of Networks.
func (r *Region) lay(n *Network) {
	name := or(n.Fabric, "fabric-0")
	f := r.fabric(name)
	if f == nil {
		f = r.addFabric(name)
	}
	v := f.vlan(n.VID)
	if v == nil {
		v = r.addVLAN(f, n.VID, "")
	}
	v.of = append(v.of, n)
	r.addSubnet(v, netip.MustParsePrefix(n.CIDR).Masked(), n.Gateway)
}

func (r *Region) fabric(idOrName string) *fabric {
	i := slices.IndexFunc(r.fabrics, func(f *fabric) bool { return strconv.Itoa(f.id) == idOrName || f.name == idOrName })
	if i < 0 {
		return nil
	}
	return r.fabrics[i]
}

func (f *fabric) vlan(vid int) *vlan {
	i := slices.IndexFunc(f.vlans, func(v *vlan) bool { return v.vid == vid })
	if i < 0 {
		return nil
	}
	return f.vlans[i]
}

// serves reports whether the VLAN has DHCP now.
func (r *Region) serves(v *vlan) bool {
	return !r.noDHCP && slices.ContainsFunc(v.of, func(n *Network) bool { return n.DHCP })
}

// servesAny reports whether any VLAN has DHCP.
func (r *Region) servesAny() bool {
	return slices.ContainsFunc(r.fabrics, func(f *fabric) bool { return slices.ContainsFunc(f.vlans, r.serves) })
}

func (r *Region) vlanBody(v *vlan) vlanBody {
	b := vlanBody{
		VID: v.vid, MTU: 1500, DHCPOn: r.serves(v), Fabric: v.fabric.name, ID: v.id, Space: "undefined", Name: v.name,
		FabricID: v.fabric.id, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/vlans/%d/", v.id),
	}
	if b.DHCPOn {
		b.PrimaryRack = ptr(rackID)
	}
	return b
}

func (r *Region) subnetBody(s *subnet) subnetBody {
	b := subnetBody{
		Name: s.name, VLAN: r.vlanBody(s.vlan), CIDR: s.prefix.String(), RDNSMode: 2, DNSServers: []string{}, AllowDNS: true,
		AllowProxy: true,
		Managed:    true, DisabledBootArchitectures: []string{}, Space: "undefined", ID: s.id,
		ResourceURI: fmt.Sprintf("/MAAS/api/2.0/subnets/%d/", s.id),
	}
	if s.gateway != "" {
		b.GatewayIP = &s.gateway
	}
	return b
}

func (r *Region) fabricBody(f *fabric) fabricBody {
	b := fabricBody{Name: f.name, ID: f.id, VLANs: []vlanBody{}, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/fabrics/%d/", f.id)}
	for _, v := range f.vlans {
		b.VLANs = append(b.VLANs, r.vlanBody(v))
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// claim takes the lowest free address of the subnet, excluding its first address and its gateway.
// The zero Addr means that no address is free.
func (s *subnet) claim() netip.Addr {
	for a := s.prefix.Addr().Next().Next(); s.prefix.Contains(a.Next()); a = a.Next() {
		if !s.taken[a] && a.String() != s.gateway {
			s.taken[a] = true
			return a
		}
	}
	return netip.Addr{}
}

// SetDHCP switches DHCP off on every VLAN, or restores it.
func (r *Region) SetDHCP(on bool) {
	defer r.enter()()
	r.noDHCP = !on
}
