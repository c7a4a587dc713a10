package maassim

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// powerTypes are the power types with a driver in the region.
var powerTypes = []string{"manual", "ipmi", "redfish", "virsh", "webhook"}

// ipmiDefaults are the default IPMI power parameters of a machine.
var ipmiDefaults = map[string][]string{
	"power_driver": {"LAN_2_0"}, "power_boot_type": {"auto"}, "power_address": {""}, "power_user": {""}, "power_pass": {""}, "k_g": {""},
	"cipher_suite_id": {"3"}, "privilege_level": {"OPERATOR"}, "workaround_flags": {"opensesspriv"}, "mac_address": {""},
}

// create adds a machine to MAAS and commissions it unless told not to. The answer does not report a
// failed commissioning: the machine is then New.
func (c *call) create() answer {
	if refusal := c.valid(nil); refusal != nil {
		return *refusal
	}
	kind := c.params.Get("power_type")
	macs := c.params["mac_addresses"]
	switch {
	case kind != "ipmi" && len(macs) == 0:
		if kind == "manual" {
			return invalid("power_type", "Can't set power type to manual without network interfaces")
		}
		return invalid("mac_addresses", "This field is required.")
	case kind != "ipmi" && c.params.Get("architecture") == "":
		return invalid("architecture", "This field is required.")
	}
	m := c.newMachine(c.params.Get("hostname"))
	c.about(m)
	c.fill(m)
	for n, mac := range macs {
		m.addInterface(fmt.Sprintf("eth%d", n), strings.ToLower(mac), c.subnets[0].vlan)
	}
	m.change("created", "", m.hostname)
	if c.flag("deployed") {
		m.setOwner(c.user.name)
		m.enter(Deployed)
		m.render()
	} else if commission := c.params.Get("commission"); commission == "" || c.flag("commission") {
		_ = m.commission(c.user, c.params) // as in MAAS: the answer reports no failure
	}
	return ok(m.body())
}

// update changes the given fields of a machine and leaves the rest.
func (c *call) update() answer {
	if refusal := c.valid(c.machine); refusal != nil {
		return *refusal
	}
	c.fill(c.machine)
	c.machine.change("updated", "", "")
	return ok(c.machine.body())
}

// valid refuses values that no machine can have; m is the machine to change, nil for a new machine.
func (c *call) valid(m *machine) *answer {
	if hostname := c.params.Get("hostname"); hostname != "" {
		if strings.ContainsAny(hostname, "_ /:") {
			return ptr(invalid("hostname", "DNS name contains an empty label or a label with invalid characters."))
		}
		if i := slices.IndexFunc(c.machines, func(o *machine) bool { return o.hostname == hostname && o != m }); i >= 0 {
			return ptr(invalid("hostname", "Node with this Hostname already exists."))
		}
	}
	for _, mac := range c.params["mac_addresses"] {
		if _, err := net.ParseMAC(mac); err != nil {
			return ptr(invalid("mac_addresses", fmt.Sprintf("'%s' is not a valid MAC address.", mac)))
		}
		for _, o := range c.machines {
			if o != m && findInterface(o.interfaces, mac) != nil {
				return ptr(invalid("mac_addresses", fmt.Sprintf("MAC address %s already in use on %s.", mac, o.hostname)))
			}
		}
	}
	if arch := c.params.Get("architecture"); arch != "" && arch != "amd64/generic" && arch != "amd64" {
		return ptr(invalid("architecture", fmt.Sprintf("'%s' is not a valid architecture. It should be one of: 'amd64/generic'.", arch)))
	}
	if pool := c.params.Get("pool"); pool != "" {
		if _, known := c.poolID(pool, false); !known {
			return ptr(invalid("pool", "Select a valid choice. That choice is not one of the available choices."))
		}
	}
	kind := c.params.Get("power_type")
	switch {
	case kind != "" && !slices.Contains(powerTypes, kind):
		return ptr(invalid("power_type", fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", kind)))
	case kind == "ipmi" && c.params.Get("power_parameters_power_address") == "" && !c.flag("power_parameters_skip_check"):
		return ptr(invalid("power_parameters", "IP address: This field is required."))
	}
	return nil
}

// fill writes the given parameters into the machine.
func (c *call) fill(m *machine) {
	for name, field := range map[string]*string{
		"hostname": &m.hostname, "description": &m.description, "min_hwe_kernel": &m.minKernel,
	} {
		if c.params.Has(name) && (name != "hostname" || c.params.Get(name) != "") {
			*field = c.params.Get(name)
		}
	}
	if id, known := c.poolID(c.params.Get("pool"), false); known {
		m.setPool(id)
	}
	if kind := c.params.Get("power_type"); kind != "" && kind != m.powerType {
		m.powerType, m.powerParams = kind, map[string][]string{}
		if kind == "ipmi" {
			for name, values := range ipmiDefaults {
				m.powerParams[name] = values
			}
		}
	}
	for name, values := range c.params {
		if param, is := strings.CutPrefix(name, "power_parameters_"); is && param != "skip_check" {
			m.powerParams[param] = values
		}
	}
}

func (m *machine) setPool(id int) {
	if id != m.pool {
		m.change("pool", m.region.poolNamed(m.pool).name, m.region.poolNamed(id).name)
		m.pool = id
	}
}
