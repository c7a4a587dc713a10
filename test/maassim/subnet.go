package maassim

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func absent(kind string) answer {
	return text(http.StatusNotFound, "No %s matches the given query.", kind)
}

func (c *call) listSubnets() answer {
	all := []subnetBody{}
	for _, s := range c.subnets {
		all = append(all, c.subnetBody(s))
	}
	return ok(all)
}

func (c *call) readSubnet() answer {
	if s := c.subnet(c.req.PathValue("id")); s != nil {
		return ok(c.subnetBody(s))
	}
	return absent("Subnet")
}

// subnet returns the subnet with the id, CIDR or name, nil if there is none.
func (r *Region) subnet(specifier string) *subnet {
	specifier = strings.TrimPrefix(strings.TrimPrefix(specifier, "cidr:"), "name:")
	i := slices.IndexFunc(r.subnets, func(s *subnet) bool {
		return strconv.Itoa(s.id) == specifier || s.prefix.String() == specifier || s.name == specifier
	})
	if i < 0 {
		return nil
	}
	return r.subnets[i]
}

// createSubnet adds a subnet to the VLAN named by its id, or by fabric and vid; the default is the
// untagged VLAN of the default fabric.
func (c *call) createSubnet() answer {
	prefix, err := netip.ParsePrefix(c.params.Get("cidr"))
	switch {
	case c.params.Get("cidr") == "":
		return invalid("cidr", "This field is required.")
	case err != nil:
		return invalid("cidr", "Required format: <network>/<prefixlen>.")
	case slices.ContainsFunc(c.subnets, func(s *subnet) bool { return s.prefix == prefix.Masked() }):
		return invalid("cidr", "Subnet with this Cidr already exists.")
	}
	v, refusal := c.vlanOfParams()
	if refusal != nil {
		return *refusal
	}
	if gateway := c.params.Get("gateway_ip"); gateway != "" {
		if a, err := netip.ParseAddr(gateway); err != nil || !prefix.Contains(a) {
			return invalid("gateway_ip", "Gateway IP must be within CIDR range.")
		}
	}
	s := c.addSubnet(v, prefix.Masked(), c.params.Get("gateway_ip"))
	s.name = or(c.params.Get("name"), s.name)
	return ok(c.subnetBody(s))
}

func (c *call) vlanOfParams() (*vlan, *answer) {
	f := c.fabrics[0]
	if given := c.params.Get("fabric"); given != "" {
		if f = c.fabric(given); f == nil {
			return nil, ptr(invalid("fabric", "Select a valid choice. That choice is not one of the available choices."))
		}
	}
	if given := c.params.Get("vlan"); given != "" {
		for _, f := range c.fabrics {
			for _, v := range f.vlans {
				if strconv.Itoa(v.id) == given {
					return v, nil
				}
			}
		}
		return nil, ptr(invalid("vlan", "Select a valid choice. That choice is not one of the available choices."))
	}
	vid, _ := strconv.Atoi(c.params.Get("vid"))
	v := f.vlan(vid)
	if v == nil && !c.params.Has("vid") {
		v = f.vlans[0]
	}
	if v == nil {
		return nil, ptr(invalid("vid", fmt.Sprintf("No VLAN with vid %d in fabric %s.", vid, f.name)))
	}
	return v, nil
}

func (c *call) listFabrics() answer {
	all := []fabricBody{}
	for _, f := range c.fabrics {
		all = append(all, c.fabricBody(f))
	}
	return ok(all)
}

func (c *call) readFabric() answer {
	if f := c.fabric(c.req.PathValue("id")); f != nil {
		return ok(c.fabricBody(f))
	}
	return absent("Fabric")
}

func (c *call) createFabric() answer {
	if name := c.params.Get("name"); name != "" && c.fabric(name) != nil {
		return invalid("name", "Fabric with this Name already exists.")
	}
	f := c.addFabric(c.params.Get("name"))
	c.addVLAN(f, 0, "")
	return ok(c.fabricBody(f))
}

func (c *call) listVLANs() answer {
	if f := c.fabric(c.req.PathValue("id")); f != nil {
		return ok(c.fabricBody(f).VLANs)
	}
	return absent("Fabric")
}

func (c *call) readVLAN() answer {
	f := c.fabric(c.req.PathValue("id"))
	vid, err := strconv.Atoi(c.req.PathValue("vid"))
	if f == nil || err != nil || f.vlan(vid) == nil {
		return absent("VLAN")
	}
	return ok(c.vlanBody(f.vlan(vid)))
}

func (c *call) createVLAN() answer {
	f := c.fabric(c.req.PathValue("id"))
	if f == nil {
		return absent("Fabric")
	}
	vid, err := strconv.Atoi(c.params.Get("vid"))
	switch {
	case err != nil || vid < 0 || vid > 4094:
		return invalid("vid", "VID must be between 0 and 4094.")
	case f.vlan(vid) != nil:
		return invalid("vid", "A VLAN with the specified VID already exists in the destination fabric.")
	}
	return ok(c.vlanBody(c.addVLAN(f, vid, c.params.Get("name"))))
}
