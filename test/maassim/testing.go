package maassim

// test runs the testing scripts on a machine. Only a few statuses refuse it.
func (c *call) test() answer {
	m := c.machine
	if m.status.in(Commissioning, Deploying, Releasing, DiskErasing, EnteringRescueMode, ExitingRescueMode, Testing) {
		return invalid("__all__", "Test is not available because of the current state of the node.")
	}
	c.asked(m, "User starting node testing")
	m.setOwner(or(m.owner, c.user.name))
	if refusal := m.start(c.user, Testing, "Testing"); refusal != nil {
		return *refusal
	}
	m.begin()
	m.staysOn = c.flag("enable_ssh")
	m.toTesting()
	return ok(m.body())
}

// toTesting runs the testing scripts.
func (m *machine) toTesting() {
	m.enter(Testing, "Testing")
	m.results["testing"] = m.region.id("result")
	t, fails := m.timing(), m.hit(TestingFails)
	m.after(t.Test, func() {
		if fails {
			m.begin()
			m.region.event(m, info, "Script", "smartctl-validate failed")
			m.enter(FailedTesting, "Failed testing")
		} else {
			m.tested()
		}
	})
}

// mended are the statuses from which passed tests lead to Ready.
var mended = []Status{
	New, Commissioning, FailedDeployment, Missing, Retired, Broken, ReleasingFailed, FailedDiskErasing, FailedEnteringRescueMode,
	FailedExitingRescueMode, FailedTesting,
}

// tested ends tests that passed. The machine returns to its previous status, or to a resting status
// if the previous status cannot be resumed.
func (m *machine) tested() {
	switch {
	case m.previous == Deployed:
		m.enter(Deployed)
		m.comeUp()
	case m.previous == FailedCommissioning:
		m.rest(New, "New")
	case m.previous.in(mended...), m.previous == Ready:
		m.rest(Ready, "Ready")
	default:
		m.rest(m.previous)
	}
}

func (c *call) overrideFailedTesting() answer {
	m := c.machine
	if m.status != FailedTesting {
		return conflict("Unable to override node status. Node is not in 'Failed testing' status.")
	}
	c.asked(m, "User overrode 'Failed testing' status")
	m.begin()
	m.errorDescription = ""
	if m.osystem != "" {
		m.enter(Deployed)
	} else {
		m.enter(Ready)
	}
	return ok(m.body())
}
