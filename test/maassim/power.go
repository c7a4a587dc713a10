package maassim

import (
	"net/http"
	"slices"
)

// power switches the hardware on or off through its BMC; on cycles the power if the hardware is on.
// On failure power returns a 503 answer for the call, else nil.
func (m *machine) power(on bool) *answer {
	h, refusal := m.reach()
	if refusal != nil {
		return refusal
	}
	if m.hit(PowerFails) {
		m.region.event(m, failure, map[bool]string{true: "Failed to power on node", false: "Failed to power off node"}[on],
			"power driver: the BMC did not act")
		return ptr(text(http.StatusServiceUnavailable, "Could not contact node's BMC: the BMC did not act"))
	}
	m.change("power", m.powerState, map[bool]string{true: "on", false: "off"}[on])
	if on && h.on {
		m.change("hard reset", "", "")
	}
	h.switchTo(on)
	m.sawPower()
	return nil
}

// reach returns the hardware if its BMC is reachable and accepts the credentials, else a refusal.
func (m *machine) reach() (*metal, *answer) {
	h := m.metal()
	switch {
	case m.region.noRack:
		return nil, ptr(retryAfter(http.StatusServiceUnavailable, 10, noConnections))
	case h == nil:
		return nil, ptr(text(http.StatusServiceUnavailable, "Could not contact node's BMC: connection timeout"))
	case !h.admits(m.powerParam("power_user"), m.powerParam("power_pass")):
		return nil, ptr(text(http.StatusServiceUnavailable, "Could not contact node's BMC: username or password invalid"))
	}
	return h, nil
}

// switchable reports whether MAAS can switch the machine's power.
func (m *machine) switchable() bool { return m.powerType != "" && m.powerType != "manual" }

// sawPower stores the power state that the BMC reports. The report ends a release and an exit from
// rescue mode, whatever switched the power.
func (m *machine) sawPower() {
	h := m.metal()
	if h == nil {
		return
	}
	m.powerState = map[bool]string{true: "on", false: "off"}[h.on]
	switch {
	case m.status == Releasing && !h.on:
		m.after(m.timing().PowerOff, m.free)
	case m.status == ExitingRescueMode && (m.previous == Deployed) == h.on:
		m.rescued()
	case m.status == ExitingRescueMode:
		m.begin()
		m.enter(FailedExitingRescueMode, "Failed exiting rescue mode")
	}
	if !h.on && !m.status.in(Commissioning, Deployed, Deploying, DiskErasing, RescueMode, EnteringRescueMode, Testing) {
		m.dropAddresses()
	}
}

func (c *call) powerOn() answer {
	m := c.machine
	if m.owner == "" {
		return conflict("Can't start node: it hasn't been allocated.")
	}
	if m.status == Allocated {
		if refusal := c.deployable(m); refusal != nil {
			return *refusal
		}
		return c.start(m)
	}
	c.asked(m, "User powering up node")
	before := m.body()
	if refusal := m.power(true); refusal != nil {
		return *refusal
	}
	if m.status == Deployed {
		m.after(m.timing().PhoneHome, m.up)
		m.bootInstalled()
	}
	return ok(before)
}

func (c *call) powerOff() answer {
	m := c.machine
	if !m.switchable() {
		return ok(nil)
	}
	c.asked(m, "User powering down node")
	before := m.body()
	if refusal := m.power(false); refusal != nil {
		return *refusal
	}
	return ok(before)
}

func (c *call) queryPower() answer {
	m := c.machine
	state := struct {
		State string `json:"state"`
	}{"unknown"}
	if !m.switchable() {
		return ok(state)
	}
	if _, refusal := m.reach(); refusal != nil {
		m.powerState = "error"
		m.region.event(m, warning, "Failed to query node's BMC", string(refusal.body))
		return *refusal
	}
	m.sawPower()
	state.State = m.powerState
	return ok(state)
}

func (c *call) powerParameters() answer { return ok(c.machine.powerBody()) }

func (c *call) allPowerParameters() answer {
	all := map[string]map[string]any{}
	for _, m := range c.machines {
		if ids := c.params["id"]; len(ids) == 0 || slices.Contains(ids, m.systemID) {
			all[m.systemID] = m.powerBody()
		}
	}
	return ok(all)
}

// powerBody returns the stored power parameters, with the password in clear.
func (m *machine) powerBody() map[string]any {
	body := map[string]any{}
	for name, values := range m.powerParams {
		if name == "workaround_flags" {
			body[name] = values
		} else {
			body[name] = values[0]
		}
	}
	return body
}
