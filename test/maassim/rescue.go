package maassim

import "time"

func (c *call) rescueMode() answer {
	m := c.machine
	if !m.status.to(EnteringRescueMode) {
		return conflict("Invalid transition: %s -> %s.", m.status, EnteringRescueMode)
	}
	c.asked(m, "User starting rescue mode")
	owner, token := m.owner, m.token
	m.setOwner(c.user.name)
	if refusal := m.start(c.user, EnteringRescueMode, "Entering rescue mode"); refusal != nil {
		m.owner, m.token = owner, token
		return *refusal
	}
	m.begin()
	m.after(m.timing().Rescue, func() { m.enter(RescueMode, "Rescue mode") })
	return ok(m.body())
}

// exitRescueMode goes back to the status before it; seeing the power as that
// status has it is what ends it. Nothing is switched but for the three statuses
// below: from the others the machine is found on some time later, which fails it.
func (c *call) exitRescueMode() answer {
	m := c.machine
	if !m.status.to(ExitingRescueMode) {
		return conflict("Invalid transition: %s -> %s.", m.status, ExitingRescueMode)
	}
	c.asked(m, "User stopping rescue mode")
	m.begin()
	m.enter(ExitingRescueMode)
	body := m.body()
	switch {
	case !m.switchable():
		m.rescued()
	case m.previous.in(Ready, Broken, Deployed):
		if refusal := m.power(m.previous == Deployed); refusal != nil {
			m.enter(FailedExitingRescueMode, "Failed exiting rescue mode")
			return *refusal
		}
	default:
		m.after(powerPoll, m.sawPower)
	}
	return ok(body)
}

// powerPoll is how often MAAS looks at a BMC by itself.
const powerPoll = 5 * time.Minute

// rescued is the end of rescue mode. Only a deployed machine keeps an owner.
func (m *machine) rescued() {
	m.begin()
	m.enter(m.previous)
	m.region.event(m, info, "Exited rescue mode", "")
	if m.status == Deployed {
		m.comeUp()
	} else {
		m.setOwner("")
	}
}
