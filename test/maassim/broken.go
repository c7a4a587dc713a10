package maassim

// markBroken takes a machine out of use. Only its owner can, whatever else they
// may do. A machine that could be released is so first: it is switched off, and
// where it was off already it is wholly given back. Up to 3.5 the owner is lost
// whatever comes of that.
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

// markFixed makes a machine Ready again, or Deployed if that is what it was.
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
