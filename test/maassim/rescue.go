package maassim

func (c *call) rescueMode() answer {
	m := c.machine
	if !m.status.to(EnteringRescueMode) {
		return conflict("Invalid transition: %s -> %s.", m.status, EnteringRescueMode)
	}
	if m.switchable() {
		if refusal := m.power(true); refusal != nil {
			return *refusal
		}
	}
	m.begin()
	m.setOwner(or(m.owner, c.user.name))
	m.enter(EnteringRescueMode)
	m.after(m.timing().Rescue, func() { m.enter(RescueMode) })
	return ok(m.body())
}

// exitRescueMode goes back to the status before it; seeing the power as that
// status has it is what ends it.
func (c *call) exitRescueMode() answer {
	m := c.machine
	if !m.status.to(ExitingRescueMode) {
		return conflict("Invalid transition: %s -> %s.", m.status, ExitingRescueMode)
	}
	back := m.previous
	m.begin()
	m.enter(ExitingRescueMode)
	body := m.body()
	if m.switchable() {
		if refusal := m.power(back == Deployed); refusal != nil {
			m.enter(FailedExitingRescueMode)
			return *refusal
		}
	} else {
		m.enter(back)
	}
	return ok(body)
}
