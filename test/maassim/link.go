package maassim

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// link is the configuration of an interface in a subnet.
type link struct {
	id      int
	mode    string // auto, dhcp, static, link_up
	subnet  *subnet
	address netip.Addr
}

func (m *machine) link(i *iface, mode string, s *subnet) *link {
	l := &link{id: m.region.id("link"), mode: mode, subnet: s}
	i.links = append(i.links, l)
	return l
}

// claimAddresses gives each AUTO link an address, as a deployment does. A deployment whose subnet
// has no free address fails.
func (m *machine) claimAddresses() {
	for _, i := range m.interfaces {
		for _, l := range i.links {
			if l.mode != "auto" || l.address.IsValid() {
				continue
			}
			if l.address = l.subnet.claim(); !l.address.IsValid() && m.status == Deploying {
				m.fail(FailedDeployment, "No more IPs available in subnet: "+l.subnet.prefix.String()+".")
				return
			}
		}
	}
}

// dropAddresses releases the addresses of AUTO links.
func (m *machine) dropAddresses() {
	for _, i := range m.interfaces {
		for _, l := range i.links {
			if l.mode == "auto" {
				l.dropAddress()
			}
		}
	}
}

func (l *link) dropAddress() {
	if l.address.IsValid() {
		delete(l.subnet.taken, l.address)
		l.address = netip.Addr{}
	}
}

// unlink removes the links that meant selects, and releases their addresses.
func (i *iface) unlink(meant func(*link) bool) (removed int) {
	kept := len(i.links)
	i.links = slices.DeleteFunc(i.links, func(l *link) bool {
		if meant(l) {
			l.dropAddress()
			return true
		}
		return false
	})
	return kept - len(i.links)
}

func every(*link) bool { return true }

func (m *machine) addresses() []string {
	all := []string{}
	for _, i := range m.interfaces {
		for _, l := range i.links {
			if l.address.IsValid() {
				all = append(all, l.address.String())
			}
		}
	}
	return all
}

// rewirable are the statuses that permit a change of links.
var rewirable = []Status{New, Ready, Allocated, Broken, FailedTesting}

func (c *call) rewire(what string, change func(*iface) *answer) answer {
	if !c.machine.status.in(rewirable...) {
		return conflict("Cannot %s interface because the machine is not New, Ready, Allocated, or Broken.", what)
	}
	i := c.iface()
	if i == nil {
		return absent("Interface")
	}
	if refusal := change(i); refusal != nil {
		return *refusal
	}
	c.machine.change("interface", "", what)
	return ok(c.machine.interfaceBody(i))
}

func (c *call) linkSubnet() answer {
	return c.rewire("link subnet", func(i *iface) *answer {
		mode := strings.ToLower(c.params.Get("mode"))
		if !slices.Contains([]string{"auto", "dhcp", "static", "link_up"}, mode) {
			return ptr(invalid("mode", fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", c.params.Get("mode"))))
		}
		s, given := c.subnet(c.params.Get("subnet")), c.params.Get("subnet")
		switch {
		case s == nil && given != "" && mode != "link_up":
			return ptr(invalid("subnet", fmt.Sprintf("None found with id=%s.", given), "This field is required."))
		case s == nil && (mode == "auto" || mode == "static"):
			return ptr(invalid("subnet", "This field is required."))
		case s != nil && i.vlan != nil && s.vlan != i.vlan && !c.flag("force"):
			return ptr(invalid("subnet", "Select a valid choice. That choice is not one of the available choices."))
		}
		address := netip.Addr{}
		if given := c.params.Get("ip_address"); mode == "static" && given != "" {
			a, err := netip.ParseAddr(given)
			if err != nil || !s.prefix.Contains(a) {
				return ptr(invalid("ip_address", fmt.Sprintf("IP address is not in the given subnet '%s'.", s.prefix)))
			}
			mine := slices.ContainsFunc(i.links, func(l *link) bool { return l.address == a })
			if s.taken[a] && !(mine && c.flag("force")) {
				return ptr(invalid("ip_address", "IP address is already in use."))
			}
			address = a
		}
		if c.flag("force") {
			i.unlink(every)
		} else {
			// A link_up link is removed for the new link.
			i.unlink(func(l *link) bool { return l.mode == "link_up" })
		}
		switch {
		case address.IsValid():
			s.taken[address] = true
		case mode == "static":
			address = s.claim()
		}
		if s != nil {
			i.vlan = s.vlan
		}
		c.machine.link(i, mode, s).address = address
		return nil
	})
}

func (c *call) unlinkSubnet() answer {
	return c.rewire("unlink subnet", func(i *iface) *answer {
		if i.unlink(func(l *link) bool { return strconv.Itoa(l.id) == c.params.Get("id") }) == 0 {
			return ptr(invalid("id", fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", c.params.Get("id"))))
		}
		return nil
	})
}

func (c *call) disconnect() answer {
	return c.rewire("disconnect", func(i *iface) *answer {
		i.unlink(every)
		i.vlan = nil
		return nil
	})
}

func (c *call) setDefaultGateway() answer {
	return c.rewire("set default gateway on", func(*iface) *answer { return nil })
}
