package maassim

import "fmt"

// enlist is unknown hardware having booted from the network: it appears as a New
// machine, and switches itself off.
func (r *Region) enlist(h *metal) {
	if r.identity(h) != nil || h.NoPXE || r.noDHCP {
		return
	}
	m := r.newMachine("")
	m.powerType = "ipmi"
	for name, values := range ipmiDefaults {
		m.powerParams[name] = values
	}
	// Enlistment makes a user of MAAS's own on the BMC.
	user, password := fmt.Sprint(r.settings["maas_auto_ipmi_user"]), r.letters("abcdefghkmnpqrstwxyz23456789", 12)
	h.users = append(h.users, user+":"+password)
	m.powerParams["power_address"], m.powerParams["power_user"], m.powerParams["power_pass"] = []string{h.BMC.Address}, []string{user}, []string{password}
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

// BootPXE cycles the power of the hardware at a BMC address by its own BMC, past
// MAAS, to have it boot from the network. Hardware that MAAS does not know is
// enlisted by that. Unknown addresses are an error.
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

// ByHand has somebody do what the kind says with a machine, now. Kinds that are
// no act of a person, and machines that there are none, are an error.
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
		clear(m.annotations) // it was released on the way
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

// somebody is the user who acts by hand.
const somebody = "somebody"

// strikeByHand has people act whom a fault has waiting for the operation.
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
			_ = r.byHand(f.Kind, m) // strike gave a kind that a person does
		}
	})
}
