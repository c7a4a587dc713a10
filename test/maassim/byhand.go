package maassim

import "fmt"

// enlist handles the network boot of unknown hardware: a New machine appears, and the hardware
// switches itself off.
func (r *Region) enlist(h *metal) {
	if r.identity(h) != nil || h.NoPXE || r.noDHCP {
		return
	}
	m := r.newMachine("")
	m.powerType = "ipmi"
	for name, values := range ipmiDefaults {
		m.powerParams[name] = values
	}
	// Enlistment creates a MAAS user on the BMC.
	user, password := fmt.Sprint(r.settings["maas_auto_ipmi_user"]), r.letters("abcdefghkmnpqrstwxyz23456789", 12)
	h.users = append(h.users, user+":"+password)
	m.powerParams["power_address"], m.powerParams["power_user"], m.powerParams["power_pass"] = []string{h.BMC.Address}, []string{user},
		[]string{password}
	for _, n := range h.NICs {
		s := r.subnets[n.Network]
		m.link(m.addInterface(n.Name, n.MAC, s.vlan), "dhcp", s)
	}
	m.powerState = "off"
	h.switchTo(false)
	m.change("discovered", "", m.hostname)
	r.event(m, info, "New", "")
	if m.hit(Ambiguous) {
		twin := r.newMachine("")
		twin.powerType, twin.powerState = "manual", "unknown"
		twin.addInterface("eth0", fmt.Sprintf("02:00:5f:00:%02x:%02x", r.rand.UintN(256), r.rand.UintN(256)), r.subnets[0].vlan)
		twin.change("discovered", "", twin.hostname)
		r.event(twin, info, "New", "")
	}
}

// BootPXE power-cycles the hardware at a BMC address through the BMC, without MAAS, so that the
// hardware boots from the network. Hardware that MAAS does not know is enlisted. An unknown address
// is an error.
func (r *Region) BootPXE(address string) error {
	defer r.enter()()
	h, found := r.metals[address]
	if !found {
		return fmt.Errorf("cannot boot hardware at %s: nothing stands there", address)
	}
	h.switchTo(true)
	wait := r.Timing.Enlist
	if h.Timing != nil {
		wait = h.Timing.Enlist
	}
	r.after(wait, func() { r.enlist(h) })
	return nil
}

// ByHand performs a person's action of the given kind on a machine, now. A kind that is no person's
// action and an unknown machine are errors.
func (r *Region) ByHand(kind Kind, systemID string) error {
	defer r.enter()()
	m := r.find(systemID)
	if m == nil {
		return fmt.Errorf("cannot do by hand %q: no machine %s", kind, systemID)
	}
	return r.byHand(kind, m)
}

func (r *Region) byHand(kind Kind, m *machine) error {
	r.caller = &user{name: somebody}
	defer func() { r.caller = nil }()
	switch kind {
	case DeletedByHand:
		m.delete()
	case TakenByHand:
		m.begin()
		clear(m.annotations) // the machine was released first
		m.setOwner(somebody)
		if m.status == Ready {
			m.enter(Allocated)
		}
	case MovedByHand:
		id, _ := r.poolID("by-hand", true)
		m.setPool(id)
	case LockedByHand:
		m.setLocked(true)
	case ReadyByHand:
		m.begin()
		m.forgetSystem()
		m.dropAddresses()
		clear(m.annotations)
		m.enter(Ready)
	case TokenRotated:
		if m.token != nil {
			m.token = nil
			m.render()
		}
	case PoweredOnByHand, PoweredOffByHand:
		if h := m.metal(); h != nil {
			h.switchTo(kind == PoweredOnByHand)
			m.bootInstalled()
			m.sawPower()
		}
	default:
		return fmt.Errorf("cannot do by hand %q: it is nothing that a person does", kind)
	}
	return nil
}

// somebody is the user name of every action by hand.
const somebody = "somebody"

// strikeByHand schedules the action by hand of a fault that waits for the operation.
func (r *Region) strikeByHand(op string, m *machine) {
	if m == nil || m.gone {
		return
	}
	f := r.strike(byHand, op, m)
	if f == nil {
		return
	}
	r.after(f.After, func() {
		if !m.gone {
			_ = r.byHand(f.Kind, m) // strike returned a kind from byHand
		}
	})
}
