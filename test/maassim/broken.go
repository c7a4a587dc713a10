package maassim

// markBroken takes a machine out of use. Only its owner can, whatever else they
// may do, and a machine that could be released is switched off and loses its
// owner first.
func (c *call) markBroken() answer {
	m := c.machine
	if m.owner == "" || m.owner != c.user.name {
		return forbidden()
	}
	if m.status.in(releasable...) {
		if !c.since("3.6") {
			m.setOwner("")
		}
		if m.switchable() && m.powerState != "off" {
			if refusal := m.power(false); refusal != nil {
				return *refusal
			}
		}
		m.dropAddresses()
	}
	m.begin()
	if !c.since("3.6") {
		m.setOwner("")
	}
	m.errorDescription = c.params.Get("comment")
	m.region.event(m, failure, "Marking node broken", or(c.params.Get("comment"), "by "+c.user.name))
	m.enter(Broken)
	return ok(m.body())
}

// markFixed makes a machine Ready again, or Deployed if that is what it was.
func (c *call) markFixed() answer {
	m := c.machine
	if m.status != Broken {
		return conflict("Can't mark a non-broken node as 'Ready'.")
	}
	m.begin()
	m.errorDescription = ""
	m.forgetSystem()
	if m.previous == Deployed {
		m.enter(Deployed)
	} else {
		m.enter(Ready)
	}
	return ok(m.body())
}
