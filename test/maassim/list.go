package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// filters are the parameters that narrow a list of machines, each with its test. Each parameter
// also has a not_ form.
var filters = map[string]func(m *machine, want string) bool{
	"id":          func(m *machine, want string) bool { return m.systemID == want },
	"hostname":    func(m *machine, want string) bool { return m.hostname == want },
	"agent_name":  func(m *machine, want string) bool { return m.agent == want },
	"owner":       func(m *machine, want string) bool { return m.owner == want },
	"power_state": func(m *machine, want string) bool { return m.powerState == want },
	"status":      func(m *machine, want string) bool { return statuses[m.status].filter == want },
	"domain":      func(_ *machine, want string) bool { return want == "maas" },
	"zone":        func(m *machine, want string) bool { return want == m.zone.Name },
	"arch":        func(m *machine, want string) bool { return strings.HasPrefix(m.architecture, want) },
	"pool":        func(m *machine, want string) bool { return m.region.poolNamed(m.pool).name == want },
	"mac_address": func(m *machine, want string) bool { return findInterface(m.interfaces, want) != nil },
	"tags":        func(*machine, string) bool { return false },
}

// listMachines answers with the full body of every machine that the filters admit, in the order of
// creation. An unknown filter is refused, so that no caller takes an unfiltered list for a filtered
// list.
func (c *call) listMachines() answer {
	if refusal := c.knownFilters(); refusal != nil {
		return *refusal
	}
	found := []machineBody{}
	for _, m := range c.machines {
		if c.lists(m) {
			found = append(found, m.body())
		}
	}
	return ok(found)
}

func (c *call) knownFilters() *answer {
	for name, wants := range c.params {
		filter := strings.TrimPrefix(name, "not_")
		if _, known := filters[filter]; !known {
			return ptr(invalid(name, "The simulator has no such filter."))
		}
		if filter != "status" {
			continue
		}
		for _, want := range wants {
			if !slices.ContainsFunc(statuses, func(s struct {
				name, filter string
				next         []Status
			},
			) bool {
				return s.filter == want
			}) {
				return ptr(invalid(name, fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", want)))
			}
		}
	}
	return nil
}

func (c *call) lists(m *machine) bool {
	for name, wants := range c.params {
		filter, not := strings.CutPrefix(name, "not_")
		if slices.ContainsFunc(wants, func(want string) bool { return filters[filter](m, want) }) == not {
			return false
		}
	}
	return true
}

func (c *call) listAllocated() answer {
	mine := []machineBody{}
	for _, m := range c.machines {
		if m.status == Allocated && m.owner == c.user.name {
			mine = append(mine, m.body())
		}
	}
	return ok(mine)
}

func (c *call) read() answer { return ok(c.machine.body()) }

func (c *call) clearDefaultGateways() answer { return ok(c.machine.body()) }

// delete removes the machine and its events from MAAS. The hardware stays as it was.
func (c *call) delete() answer {
	c.machine.delete()
	return answer{code: http.StatusNoContent, ctype: textPlain}
}

func (m *machine) delete() {
	for _, i := range m.interfaces {
		i.unlink(every)
	}
	m.change("deleted", m.status.String(), "")
	m.gone = true
	m.region.machines = slices.DeleteFunc(m.region.machines, func(o *machine) bool { return o == m })
}
