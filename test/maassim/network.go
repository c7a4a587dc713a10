package maassim

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Network is a subnet with the VLAN and the fabric that it lies in. Networks that
// name the same fabric share it.
type Network struct {
	Fabric  string // fabric-0 where empty
	VID     int
	CIDR    string
	Gateway string // none where empty
	DHCP    bool   // as long as the region has not switched DHCP off altogether

	fabricID, vlanID, id int
	taken                map[netip.Addr]bool
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

// settle gives the network its ids. The networks before it have theirs.
func (n *Network) settle(r *Region) {
	if n.Fabric == "" {
		n.Fabric = "fabric-0"
	}
	n.fabricID, n.vlanID, n.id = -1, 0, r.id("subnet")
	for i := range r.Networks {
		if o := &r.Networks[i]; o != n && o.Fabric == n.Fabric && o.id != 0 {
			if n.fabricID = o.fabricID; o.VID == n.VID {
				n.vlanID = o.vlanID
			}
		}
	}
	if n.fabricID < 0 {
		n.fabricID = r.id("fabric")
	}
	if n.vlanID == 0 {
		n.vlanID = r.id("vlan")
	}
	n.taken = map[netip.Addr]bool{}
}

func (r *Region) vlan(n *Network) vlanBody {
	b := vlanBody{
		VID: n.VID, MTU: 1500, DHCPOn: n.DHCP && !r.noDHCP, Fabric: n.Fabric, ID: n.vlanID, Space: "undefined", Name: "untagged",
		FabricID: n.fabricID, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/vlans/%d/", n.vlanID),
	}
	if n.VID != 0 {
		b.Name = strconv.Itoa(n.VID)
	}
	if b.DHCPOn {
		b.PrimaryRack = ptr(rackID)
	}
	return b
}

func (r *Region) subnet(n *Network) subnetBody {
	b := subnetBody{
		Name: n.CIDR, VLAN: r.vlan(n), CIDR: n.CIDR, RDNSMode: 2, DNSServers: []string{}, AllowDNS: true, AllowProxy: true, Managed: true,
		DisabledBootArchitectures: []string{}, Space: "undefined", ID: n.id, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/subnets/%d/", n.id),
	}
	if n.Gateway != "" {
		b.GatewayIP = &n.Gateway
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// claim takes the lowest free address of the network: not its first, nor its
// gateway. The zero Addr means that it is used up.
func (n *Network) claim() netip.Addr {
	prefix := netip.MustParsePrefix(n.CIDR)
	for a := prefix.Masked().Addr().Next().Next(); prefix.Contains(a.Next()); a = a.Next() {
		if !n.taken[a] && a.String() != n.Gateway {
			n.taken[a] = true
			return a
		}
	}
	return netip.Addr{}
}

func (c *call) listSubnets() answer {
	all := []subnetBody{}
	for i := range c.Networks {
		all = append(all, c.subnet(&c.Networks[i]))
	}
	return ok(all)
}

func (c *call) readSubnet() answer {
	if n := c.network(c.req.PathValue("id")); n != nil {
		return ok(c.subnet(n))
	}
	return text(http.StatusNotFound, "No Subnet matches the given query.")
}

// network is the one of that id, CIDR or name, nil if there is none.
func (r *Region) network(specifier string) *Network {
	specifier = strings.TrimPrefix(strings.TrimPrefix(specifier, "cidr:"), "name:")
	i := slices.IndexFunc(r.Networks, func(n Network) bool { return strconv.Itoa(n.id) == specifier || n.CIDR == specifier })
	if i < 0 {
		return nil
	}
	return &r.Networks[i]
}

func (r *Region) fabrics() []fabricBody {
	all := []fabricBody{}
	for i := range r.Networks {
		n := &r.Networks[i]
		at := slices.IndexFunc(all, func(f fabricBody) bool { return f.ID == n.fabricID })
		if at < 0 {
			at = len(all)
			all = append(all, fabricBody{Name: n.Fabric, ID: n.fabricID, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/fabrics/%d/", n.fabricID)})
		}
		if !slices.ContainsFunc(all[at].VLANs, func(v vlanBody) bool { return v.ID == n.vlanID }) {
			all[at].VLANs = append(all[at].VLANs, r.vlan(n))
		}
	}
	return all
}

func (c *call) listFabrics() answer { return ok(c.fabrics()) }

func (c *call) fabric() (fabricBody, bool) {
	all := c.fabrics()
	i := slices.IndexFunc(all, func(f fabricBody) bool {
		return strconv.Itoa(f.ID) == c.req.PathValue("id") || f.Name == c.req.PathValue("id")
	})
	if i < 0 {
		return fabricBody{}, false
	}
	return all[i], true
}

func (c *call) readFabric() answer {
	if f, found := c.fabric(); found {
		return ok(f)
	}
	return text(http.StatusNotFound, "No Fabric matches the given query.")
}

func (c *call) listVLANs() answer {
	if f, found := c.fabric(); found {
		return ok(f.VLANs)
	}
	return text(http.StatusNotFound, "No Fabric matches the given query.")
}

func (c *call) readVLAN() answer {
	f, _ := c.fabric()
	for _, v := range f.VLANs {
		if strconv.Itoa(v.VID) == c.req.PathValue("vid") {
			return ok(v)
		}
	}
	return text(http.StatusNotFound, "No VLAN matches the given query.")
}

// SetDHCP switches DHCP off on every VLAN, or gives it back where it was.
func (r *Region) SetDHCP(on bool) {
	defer r.enter()()
	r.noDHCP = !on
}
