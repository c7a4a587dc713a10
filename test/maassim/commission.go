package maassim

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// commission begins a commissioning for the caller. If switching the power fails, the status is
// reverted but the owner stays.
func (c *call) commission() answer {
	m := c.machine
	if !m.status.in(New, FailedCommissioning, Ready, Broken) {
		return invalid("__all__", "Commission is not available because of the current state of the node.")
	}
	c.asked(m, "User starting node commissioning")
	if refusal := m.commission(c.user, c.params); refusal != nil {
		return *refusal
	}
	return ok(m.body())
}

// commission reads the options of the commission call, or of create.
func (m *machine) commission(by *user, options url.Values) *answer {
	m.setOwner(by.name)
	if refusal := m.start(by, Commissioning, "Commissioning"); refusal != nil {
		return refusal
	}
	m.begin()
	m.change("commission", "", "")
	m.testing, m.staysOn = options.Get("testing_scripts") != "none", flag(options, "enable_ssh")
	now := &run{id: m.region.id("result"), begun: m.region.moment, status: runGoesOn}
	m.runs = append(m.runs, now)
	m.results["commissioning"] = now.id
	m.token = ptr(m.region.newToken())
	m.errorDescription = ""
	t, h := m.timing(), m.metal()
	if h == nil || h.NoPXE || m.region.identity(h) != m || m.region.noDHCP || m.hit(CommissioningStalls) {
		m.after(t.NodeTimeout, func() { m.timeOut(FailedCommissioning, t.NodeTimeout) })
		return nil
	}
	m.after(t.Commission/2, func() { now.pinged = m.region.moment })
	if m.hit(CommissioningFails) {
		m.after(t.Commission, m.commissioningFailed)
		return nil
	}
	m.after(t.Commission, m.commissionedOnce)
	return nil
}

// commissioningFailed handles a failure that the machine itself reports. The machine then loses its
// owner and its token; after a timeout it keeps both.
func (m *machine) commissioningFailed() {
	m.begin()
	m.endRun(runFailed)
	m.region.event(m, info, "Script", "50-maas-01-commissioning failed")
	m.region.event(m, failure, "Script result lookup or storage error",
		m.hostname+"("+m.systemID+"): commissioning script '50-maas-01-commissioning' failed during post-processing.")
	m.enter(FailedCommissioning, "Failed commissioning")
	m.setOwner("")
}

// timeOut fails the machine when MAAS's own timeout ends.
func (m *machine) timeOut(to Status, after time.Duration) {
	m.endRun(runTimeout)
	m.fail(to, "Node operation '"+m.status.String()+"' timed out after "+minutes(after)+".")
}

// commissionedOnce ends a commissioning whose scripts passed and stores the discovered hardware. A
// machine that was switched off meanwhile reports nothing and times out.
func (m *machine) commissionedOnce() {
	h := m.metal()
	if h == nil || !h.on {
		t := m.timing()
		m.after(max(t.NodeTimeout-t.Commission, 0), func() { m.timeOut(FailedCommissioning, t.NodeTimeout) })
		return
	}
	m.discover(h)
	m.endRun(runPassed)
	m.commissioned = true
	m.begin()
	if m.testing {
		m.toTesting()
		return
	}
	m.rest(Ready, "Ready")
}

// rest puts the machine into a resting status and switches it off, unless the commissioning asked
// for SSH access.
func (m *machine) rest(s Status, said ...string) {
	m.begin()
	if h := m.metal(); h != nil && m.switchable() && h.on && !m.staysOn {
		h.switchTo(false)
		m.powerState = "off"
	}
	m.enter(s, said...)
}

// discover stores the hardware's properties in the machine's record.
func (m *machine) discover(h *metal) {
	r := m.region
	m.cpus, m.memory = h.CPUs, h.MemoryMiB
	if h.Architecture != "" {
		m.architecture = h.Architecture
	}
	m.hardwareInfo = map[string]string{
		"system_vendor": h.Vendor, "system_product": h.Product, "system_serial": h.Serial, "mainboard_serial": h.Serial,
		"chassis_serial": h.Serial,
	}
	kept := m.interfaces
	m.interfaces = nil
	for n, card := range h.NICs {
		i := findInterface(kept, card.MAC)
		if i == nil {
			i = &iface{id: r.id("interface"), mac: card.MAC}
		}
		i.name, i.speed, i.connected = card.Name, card.Speed, !card.Unplugged
		s := r.subnets[card.Network]
		if i.vlan == nil && i.connected {
			i.vlan = s.vlan
		}
		m.interfaces = append(m.interfaces, i)
		i.unlink(every)
		if i.vlan == nil {
			continue
		}
		if n == 0 {
			m.link(i, "auto", s)
		} else {
			m.link(i, "link_up", nil)
		}
	}
	m.discoverDisks(h)
	if m.hit(NoInterfaces) {
		m.interfaces = nil
	}
	if m.hit(NoStatusMessage) {
		m.statusUnsaid = true
	}
}

func (m *machine) discoverDisks(h *metal) {
	m.disks, m.bootDisk = nil, 0
	noCard, two, noPath := m.hit(NoBootCard), m.hit(TwoBootCards), m.hit(NoIDPath)
	if m.hit(NoDisks) {
		return
	}
	for _, d := range h.Disks {
		if noPath {
			d.IDPath = ""
		}
		if d.boss() && noCard {
			continue
		}
		m.addDisk(d)
		if d.boss() && two {
			d.Name, d.Serial, d.IDPath = d.Name+"b", d.Serial+"B", d.IDPath+"B"
			m.addDisk(d)
		}
	}
	if m.region.settings["default_storage_layout"] == "flat" {
		m.layOut(m.boot())
	}
}

func findInterface(among []*iface, mac string) *iface {
	for _, i := range among {
		if strings.EqualFold(i.mac, mac) {
			return i
		}
	}
	return nil
}

// accept commissions discovered machines.
func (c *call) accept() answer {
	var chosen []*machine
	var refused []string
	for _, id := range c.params["machines"] {
		m := c.find(id)
		switch {
		case m == nil:
			return text(http.StatusBadRequest, "Unknown machine(s): %s.", id)
		case m.status == New:
			chosen = append(chosen, m)
		case !m.status.in(Ready, Commissioning):
			refused = append(refused, "Cannot accept node enlistment: node "+id+" is in state "+m.status.String()+".")
		}
		c.about(m)
	}
	if len(refused) > 0 {
		return conflict("%s", strings.Join(refused, "\n"))
	}
	return c.acceptThese(chosen)
}

func (c *call) acceptAll() answer {
	var chosen []*machine
	for _, m := range c.machines {
		if m.status == New {
			chosen = append(chosen, m)
		}
	}
	return c.acceptThese(chosen)
}

func (c *call) acceptThese(chosen []*machine) answer {
	bodies := []machineBody{}
	for _, m := range chosen {
		if refusal := m.commission(c.user, nil); refusal != nil {
			return *refusal
		}
		bodies = append(bodies, m.body())
	}
	return ok(bodies)
}
