package maassim

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Call is one request as the region saw it. Parameters that are secrets or the
// user-data are left out.
type Call struct {
	At            time.Time
	Method, Path  string
	Op            string // as the table of routes names it: list, read, deploy
	User          string // empty where nobody could be made out
	Params        url.Values
	SystemID      string // of the machine that it was about
	Before, After Status
	Code          int  // of the answer; 0 where it was lost on the way
	Fault         Kind // that was struck, if any
}

// Calls returns every call there was, oldest first.
func (r *Region) Calls() []Call {
	defer r.enter()()
	return slices.Clone(r.calls)
}

// Count is how many calls of an operation there were, refused ones included.
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

// call is a request while it is being answered, with the region taken.
type call struct {
	*Region
	req     *http.Request
	user    *user
	params  url.Values
	machine *machine // named by the path, else nil
	subject *machine // whom the call is about, by the path or the parameters
	before  Status
}

// about says which machine the call turned out to be about.
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

// record writes the call into the log.
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

// Change is one turn in a machine's history.
type Change struct {
	At               time.Time
	SystemID, Serial string // Serial is empty where no hardware is behind the machine
	What             string // status, owner, deploy, release, commission, erase, boot, pool, locked, token, deleted, ...
	From, To         string
	By               string // the user whose call it was, or who acted by hand; empty for MAAS itself
}

// History returns what happened to a machine, by system_id or by the serial of
// its hardware; to all machines for "".
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

// Happened counts the turns of a kind in a machine's history, such as deploy.
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
