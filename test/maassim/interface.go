package maassim

import (
	"fmt"
	"slices"
	"strconv"
)

// iface is a network card in MAAS's record.
type iface struct {
	id        int
	name, mac string
	speed     int
	connected bool
	vlan      *vlan // nil for none
	links     []*link
}

type linkBody struct {
	ID        int         `json:"id"`
	Mode      string      `json:"mode"`
	IPAddress *string     `json:"ip_address,omitempty"`
	Subnet    *subnetBody `json:"subnet,omitempty"`
}

type interfaceBody struct {
	SRIOVMaxVF      int            `json:"sriov_max_vf"`
	Parents         []string       `json:"parents"`
	LinkConnected   bool           `json:"link_connected"`
	Vendor          *string        `json:"vendor"`
	Product         *string        `json:"product"`
	Enabled         bool           `json:"enabled"`
	SystemID        string         `json:"system_id"`
	Discovered      []any          `json:"discovered"`
	MACAddress      string         `json:"mac_address"`
	Name            string         `json:"name"`
	Tags            []string       `json:"tags"`
	Links           []linkBody     `json:"links"`
	VLAN            *vlanBody      `json:"vlan"`
	Children        []string       `json:"children"`
	LinkSpeed       int            `json:"link_speed"`
	Type            string         `json:"type"`
	NUMANode        int            `json:"numa_node"`
	ID              int            `json:"id"`
	FirmwareVersion *string        `json:"firmware_version"`
	EffectiveMTU    int            `json:"effective_mtu"`
	Params          map[string]any `json:"params"`
	InterfaceSpeed  int            `json:"interface_speed"`
	ResourceURI     string         `json:"resource_uri"`
}

func (m *machine) interfaceBody(i *iface) interfaceBody {
	b := interfaceBody{
		Parents: []string{}, LinkConnected: i.connected, Enabled: true, SystemID: m.systemID, MACAddress: i.mac, Name: i.name,
		Tags:  []string{},
		Links: []linkBody{}, Children: []string{}, LinkSpeed: i.speed, Type: "physical", ID: i.id, EffectiveMTU: 1500,
		Params:         map[string]any{},
		InterfaceSpeed: i.speed, ResourceURI: fmt.Sprintf("/MAAS/api/2.0/nodes/%s/interfaces/%d/", m.systemID, i.id),
	}
	if i.vlan != nil {
		b.VLAN = ptr(m.region.vlanBody(i.vlan))
	}
	for _, l := range i.links {
		lb := linkBody{ID: l.id, Mode: l.mode}
		if l.subnet != nil {
			lb.Subnet = ptr(m.region.subnetBody(l.subnet))
		}
		if l.address.IsValid() {
			lb.IPAddress = ptr(l.address.String())
		}
		b.Links = append(b.Links, lb)
	}
	return b
}

func (m *machine) interfaceBodies() []interfaceBody {
	all := []interfaceBody{}
	for _, i := range m.interfaces {
		all = append(all, m.interfaceBody(i))
	}
	return all
}

// addInterface records a network card in the VLAN.
func (m *machine) addInterface(name, mac string, v *vlan) *iface {
	i := &iface{id: m.region.id("interface"), name: name, mac: mac, vlan: v, connected: true}
	m.interfaces = append(m.interfaces, i)
	return i
}

func (c *call) listInterfaces() answer { return ok(c.machine.interfaceBodies()) }

// iface returns the interface named by the path, nil if the machine has no such interface.
func (c *call) iface() *iface {
	i := slices.IndexFunc(c.machine.interfaces, func(i *iface) bool { return strconv.Itoa(i.id) == c.req.PathValue("id") })
	if i < 0 {
		return nil
	}
	return c.machine.interfaces[i]
}

func (c *call) readInterface() answer {
	if i := c.iface(); i != nil {
		return ok(c.machine.interfaceBody(i))
	}
	return absent("Interface")
}
