package maassim

import (
	"fmt"
	"net/http"
	"time"
)

// releasable are the statuses from which a machine can be released.
var releasable = []Status{Reserved, Deployed, Broken, Deploying, Allocated, FailedDeployment, ReleasingFailed, FailedDiskErasing}

func (c *call) release() answer {
	m := c.machine
	if m.status.in(Ready, Releasing) {
		return ok(m.body()) // whatever the parameters are
	}
	if !m.status.in(releasable...) {
		return conflict("Machine cannot be released in its current state ('%s').", m.status)
	}
	erase := c.flag("erase") || c.settings["enable_disk_erasing_on_release"] == true
	if c.since("3.5") {
		erase = erase || c.flag("secure_erase") || c.flag("quick_erase")
	}
	if refusal := c.letGo(m, c.erasure(erase)); refusal != nil {
		return *refusal
	}
	return ok(m.body())
}

// erasure returns how the disks are erased: as the call's parameters say, else as the region's
// settings say. The empty string means that the disks are not erased.
func (c *call) erasure(erase bool) string {
	said := func(name string) bool {
		if c.params.Has(name) {
			return c.flag(name)
		}
		return c.settings["disk_erase_with_"+name] == true
	}
	switch secure, quick := said("secure_erase"), said("quick_erase"); {
	case !erase:
		return ""
	case secure && quick:
		return "secure, or quick"
	case secure:
		return "secure"
	case quick:
		return "quick"
	}
	return "overwrite"
}

func (c *call) letGo(m *machine, erase string) *answer {
	if erase != "" {
		c.asked(m, "User erasing disk")
	} else {
		c.asked(m, "User releasing node")
	}
	return m.release(c.user, erase)
}

// release gives the machine back. If the power-off fails, the status is reverted, but the fields of
// the installed system are lost.
func (m *machine) release(by *user, erase string) *answer {
	m.change("release", m.status.String(), "")
	if erase != "" {
		return m.erase(by, erase)
	}
	m.forgetSystem()
	if !m.switchable() || m.powerState == "off" {
		m.enter(Releasing, "Releasing")
		m.free()
		return nil
	}
	if m.hit(ReleaseHangs) {
		m.begin()
		m.enter(Releasing, "Releasing")
		m.after(m.timing().ReleaseTimeout, func() {
			m.fail(ReleasingFailed, "Node operation 'Releasing' timed out after "+minutes(m.timing().ReleaseTimeout)+".")
		})
		return nil
	}
	was, before := m.status, m.previous
	m.enter(Releasing, "Releasing")
	if refusal := m.power(false); refusal != nil {
		m.revert(was, before)
		return refusal
	}
	m.begin()
	m.sawPower()
	return nil
}

func (m *machine) erase(by *user, how string) *answer {
	if refusal := m.start(by, DiskErasing); refusal != nil {
		return refusal
	}
	m.begin()
	m.forgetSystem()
	m.change("erase", "", how)
	t := m.timing()
	switch {
	case m.hit(EraseHangs):
	case m.hit(EraseFails):
		m.after(t.Erase, func() { m.fail(FailedDiskErasing, "Failed to erase disks.") })
	default:
		m.after(t.Erase, func() {
			if h := m.metal(); h != nil && h.Guest != nil {
				h.Guest.Erase(how)
			}
			m.erased()
		})
	}
	return nil
}

// erased releases a machine after its disks are erased.
func (m *machine) erased() {
	m.begin()
	m.enter(Releasing, "Releasing")
	switch {
	case !m.switchable():
		m.after(m.timing().PowerOff, m.free)
	case m.power(false) != nil:
		m.fail(ReleasingFailed, "Failed to power off node")
	}
}

// releaseMany releases several machines, or no machine if any machine cannot be released.
func (c *call) releaseMany() answer {
	var chosen []*machine
	for _, id := range c.params["machines"] {
		m := c.find(id)
		switch {
		case m == nil:
			return text(http.StatusBadRequest, "Unknown machine(s): %s.", id)
		case !edit.admits(c.user, m):
			return text(http.StatusForbidden, "You don't have the required permission to release the following machine(s): %s.", id)
		case !m.status.in(releasable...) && !m.status.in(Ready, Releasing):
			return conflict("Machine(s) cannot be released in their current state: %s ('%s').", id, m.status)
		}
		c.about(m)
		if m.status.in(releasable...) {
			chosen = append(chosen, m)
		}
	}
	released := []string{}
	for _, m := range chosen {
		if refusal := c.letGo(m, c.erasure(c.settings["enable_disk_erasing_on_release"] == true)); refusal != nil {
			return *refusal
		}
		released = append(released, m.systemID)
	}
	return ok(released)
}

// abort stops the current process. The answer's body still shows the status before the abort.
func (c *call) abort() answer {
	m := c.machine
	to := map[Status]Status{Commissioning: New, Deploying: Allocated, DiskErasing: FailedDiskErasing, Testing: m.previous}
	if m.previous == Commissioning {
		to[Testing] = Ready
	}
	next, can := to[m.status]
	if !can {
		return conflict("Cannot abort in current state: node %s is in state %s.", m.systemID, m.status)
	}
	kind := map[Status]string{
		Commissioning: "node commissioning", Deploying: "deployment", DiskErasing: "disk erase", Testing: "node testing",
	}[m.status]
	c.asked(m, "User aborting "+kind)
	before := m.body()
	if m.status == Commissioning {
		m.setOwner("")
	}
	if m.switchable() {
		if refusal := m.power(false); refusal != nil {
			return *refusal
		}
	}
	kind = map[Status]string{
		Commissioning: "Aborted commissioning", Deploying: "Aborted deployment", DiskErasing: "Aborted disk erasing",
		Testing: "Aborted testing",
	}[m.status]
	m.begin()
	m.endRun(runAborted)
	if m.status == Deploying {
		m.forgetSystem()
		m.dropAddresses()
	}
	m.region.event(m, info, kind, "")
	m.enter(next)
	return ok(before)
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }
