package maassim

import (
	"net/http"
	"slices"
)

// allocate claims a machine exclusively. The simulator has no VM host: without a system_id,
// allocate takes the first machine that fits and never creates a machine.
func (c *call) allocate() answer {
	id, name := c.params.Get("system_id"), c.params.Get("name")
	i := slices.IndexFunc(c.machines, func(m *machine) bool {
		fits := (id == "" || m.systemID == id) && (name == "" || m.hostname == name)
		return fits && m.status == Ready && m.owner == "" && !m.locked
	})
	switch {
	case i < 0 && id != "":
		return conflict("No machine with system ID %s available.", id)
	case i < 0:
		return conflict("No available machine matches constraints: name=%s", name)
	}
	m := c.machines[i]
	c.about(m)
	if !c.flag("dry_run") {
		m.begin()
		m.setOwner(c.user.name)
		m.agent = c.params.Get("agent_name")
		m.change("allocate", "", "")
		c.asked(m, "User acquiring node")
		m.enter(Allocated)
	}
	return ok(m.body())
}

// annotate sets annotations; an empty value removes an annotation. Only the owner may annotate.
func (c *call) annotate() answer {
	m := c.machine
	if m.owner != c.user.name {
		return text(http.StatusConflict, "Cannot set workload annotation: it hasn't been acquired.")
	}
	for name := range c.params {
		if v := c.params.Get(name); v != "" {
			m.annotations[name] = v
		} else {
			delete(m.annotations, name)
		}
	}
	m.change("annotations", "", "")
	return ok(m.body())
}
