package maassim

func (c *call) lock() answer {
	m := c.machine
	switch {
	case m.locked:
		return conflict("Machine is already locked")
	case !m.status.in(Deployed, Deploying):
		return conflict("Can't lock, node is not deployed or deploying")
	}
	c.asked(m, "User locking node")
	m.setLocked(true)
	return ok(m.body())
}

func (c *call) unlock() answer {
	if !c.machine.locked {
		return conflict("Machine is not locked")
	}
	c.asked(c.machine, "User unlocking node")
	c.machine.setLocked(false)
	return ok(c.machine.body())
}

func (m *machine) setLocked(locked bool) {
	m.change("locked", map[bool]string{true: "yes", false: "no"}[m.locked], map[bool]string{true: "yes", false: "no"}[locked])
	m.locked = locked
}
