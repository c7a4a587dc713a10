package maassim

// test runs the testing scripts on a machine in nearly every status; the machine
// goes back to where it was.
func (c *call) test() answer {
	m := c.machine
	if m.status.in(Commissioning, Deploying, Releasing, DiskErasing, EnteringRescueMode, ExitingRescueMode, Testing) {
		return invalid("__all__", "Test is not available because of the current state of the node.")
	}
	if m.switchable() {
		if refusal := m.power(true); refusal != nil {
			return *refusal
		}
	}
	back := m.rests()
	if back == FailedCommissioning {
		back = Ready // the model knows no way back to it
	}
	m.ownerBeforeTest, m.staysOn = m.owner, c.flag("enable_ssh")
	m.begin()
	m.setOwner(or(m.owner, c.user.name))
	m.toTesting(back)
	return ok(m.body())
}

// toTesting runs the testing scripts, and returns to that status when they pass.
func (m *machine) toTesting(back Status) {
	m.enter(Testing)
	m.previous = back
	m.results["testing"] = m.region.id("result")
	t, fails := m.timing(), m.hit(TestingFails)
	m.after(t.Test, func() {
		if fails {
			m.fail(FailedTesting, "1 test failed")
			return
		}
		switch back {
		case Deployed:
			m.enter(Deployed)
			m.comeUp()
		case Ready, New:
			m.rest(back)
		default:
			m.enter(back)
			m.setOwner(m.ownerBeforeTest)
		}
	})
}

func (c *call) overrideFailedTesting() answer {
	m := c.machine
	if m.status != FailedTesting {
		return conflict("Unable to override node status. Node is not in 'Failed testing' status.")
	}
	m.begin()
	if m.osystem != "" {
		m.enter(Deployed)
	} else {
		m.enter(Ready)
	}
	return ok(m.body())
}
