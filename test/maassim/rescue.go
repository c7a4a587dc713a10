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

// exitRescueMode returns to the status before rescue mode. The exit ends when the BMC reports the
// power state of that status. Only for Ready, Broken and Deployed does MAAS switch the power: from
// any other status a later power poll finds the machine on, and the exit fails.
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

// powerPoll is the interval of MAAS's own power polls.
const powerPoll = 5 * time.Minute

// rescued ends rescue mode. Only a deployed machine keeps its owner.
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
