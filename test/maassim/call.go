package maassim

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Call is one request as the region received it. Secret parameters and the user-data are left out.
type Call struct {
	At            time.Time
	Method, Path  string
	Op            string // the name in the table of routes: list, read, deploy
	User          string // empty if no user was authenticated
	Params        url.Values
	SystemID      string // of the call's machine
	Before, After Status
	Code          int  // of the answer; 0 if the answer was lost on the way
	Fault         Kind // the fault that struck, if any
}

// Calls returns every call, oldest first.
func (r *Region) Calls() []Call {
	defer r.enter()()
	return slices.Clone(r.calls)
}

// Count returns the number of calls of an operation, refused calls included.
func (r *Region) Count(op string) int {
	defer r.enter()()
	n := 0
	for _, c := range r.calls {
		if c.Op == op {
			n++
		}
	}
	return n
}

// call is a request while it is being answered. The region is locked.
type call struct {
	*Region
	req     *http.Request
	user    *user
	params  url.Values
	machine *machine // named by the path, else nil
	subject *machine // the call's machine, named by the path or the parameters
	before  Status
}

// about records the machine that the call is about.
func (c *call) about(m *machine) {
	c.subject, c.before = m, m.status
}

// flag reads a boolean parameter as MAAS's forms do.
func (c *call) flag(name string) bool { return flag(c.params, name) }

func flag(params url.Values, name string) bool {
	switch params.Get(name) {
	case "true", "True", "1", "on", "yes":
		return true
	}
	return false
}

// record appends the call to the log.
func (c *call) record(op string, a *answer, fault Kind) {
	l := Call{
		At: c.moment, Method: c.req.Method, Path: c.req.URL.Path, Op: op, Params: url.Values{}, Code: a.code, Fault: fault,
	}
	if c.user != nil {
		l.User = c.user.name
	}
	for name, values := range c.params {
		switch name {
		case "user_data", "power_parameters_power_pass", "power_parameters_k_g", "power_pass", "k_g", "value":
		default:
			l.Params[name] = values
		}
	}
	if c.subject != nil {
		l.SystemID, l.Before, l.After = c.subject.systemID, c.before, c.subject.status
	}
	c.calls = append(c.calls, l)
}

// Change is one entry of a machine's history.
type Change struct {
	At               time.Time
	SystemID, Serial string // Serial is empty if no hardware is behind the machine
	What             string // status, owner, deploy, release, commission, erase, boot, pool, locked, token, deleted, ...
	From, To         string
	By               string // the user who called or acted by hand; empty for MAAS itself
}

// History returns the history of a machine, given its system_id or the serial of its hardware. The
// empty string selects all machines.
func (r *Region) History(who string) []Change {
	defer r.enter()()
	var its []Change
	for _, c := range r.changes {
		if who == "" || c.SystemID == who || c.Serial == who {
			its = append(its, c)
		}
	}
	return its
}

// Happened counts the history entries of one kind, such as deploy.
func (r *Region) Happened(who, what string) int {
	n := 0
	for _, c := range r.History(who) {
		if c.What == what {
			n++
		}
	}
	return n
}

func (m *machine) change(what, from, to string) {
	c := Change{At: m.region.moment, SystemID: m.systemID, What: what, From: from, To: to}
	if m.region.caller != nil {
		c.By = m.region.caller.name
	}
	if h := m.metal(); h != nil {
		c.Serial = h.Serial
	}
	m.region.changes = append(m.region.changes, c)
}
