package maassim

// markBroken takes a machine out of use. Only the owner may do so, whatever permissions another
// user has. A releasable machine is released first: MAAS switches the machine off, and a machine
// that was off already is given back completely. Up to 3.5 the machine loses its owner even if the
// call fails.
func (c *call) markBroken() answer {
	m := c.machine
	if m.owner == "" || m.owner != c.user.name {
		return forbidden()
	}
	c.asked(m, "User marking node broken")
	releases := m.status.in(releasable...)
	if !c.since("3.6") {
		m.setOwner("")
	}
	if releases {
		c.event(m, info, "Releasing", "")
		m.forgetSystem()
		if !m.switchable() || m.powerState == "off" {
			m.leave()
		} else if refusal := m.power(false); refusal != nil {
			return *refusal
		}
		m.dropAddresses()
	}
	m.begin()
	m.errorDescription = c.params.Get("comment")
	m.enter(Broken)
	return ok(m.body())
}

// markFixed makes a machine Ready, or Deployed if the machine was Deployed before.
func (c *call) markFixed() answer {
	m := c.machine
	if m.status != Broken {
		return conflict("Can't mark a non-broken node as 'Ready'.")
	}
	c.asked(m, "User marking node fixed")
	m.begin()
	m.errorDescription = ""
	m.osystem, m.series, m.kernel = "", "", ""
	if m.previous == Deployed {
		m.enter(Deployed)
	} else {
		m.enter(Ready)
	}
	return ok(m.body())
}
