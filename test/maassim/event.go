package maassim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// level is an event's severity, numbered as in Python's logging.
type level int

const (
	audit   level = 0
	debug   level = 10
	info    level = 20
	warning level = 30
	failure level = 40
)

var levels = map[string]level{"AUDIT": audit, "DEBUG": debug, "INFO": info, "WARNING": warning, "ERROR": failure, "CRITICAL": 50}

func (l level) String() string {
	for name, of := range levels {
		if of == l {
			return name
		}
	}
	return "UNKNOWN"
}

// event is a row of the events feed. Deleting a machine deletes its events.
type event struct {
	id                int
	machine           *machine
	level             level
	at                time.Time
	kind, description string
	user              string // the user whose request it was, empty for MAAS itself
}

// event appends an event to the feed. A fault may drop the event, or commit it after events with
// higher ids.
func (r *Region) event(m *machine, l level, kind, description string) {
	r.write(event{r.id("event"), m, l, r.moment, kind, description, ""})
}

// asked appends the event of a user's request.
func (c *call) asked(m *machine, kind string) {
	description := "(" + c.user.name + ")"
	if comment := c.params.Get("comment"); comment != "" {
		description += " - " + comment
	}
	c.write(event{c.id("event"), m, debug, c.moment, kind, description, c.user.name})
}

func (r *Region) write(e event) {
	m := e.machine
	if m.hit(EventsMissing) {
		return
	}
	if f, late := m.strikes(EventsUnordered); late {
		r.after(max(f.After, 30*time.Second), func() { r.commit(e) })
		return
	}
	r.commit(e)
}

func (r *Region) commit(e event) {
	at := len(r.events)
	for at > 0 && r.events[at-1].id > e.id {
		at--
	}
	r.events = slices.Insert(r.events, at, e)
	if m := e.machine; e.level >= info && e.id > m.said {
		m.said, m.statusMessage = e.id, e.kind
		if e.description != "" {
			m.statusMessage += " - " + e.description
		}
	}
}

type eventBody struct {
	Username    string `json:"username"`
	Node        string `json:"node"`
	Hostname    string `json:"hostname"`
	ID          int    `json:"id"`
	Level       string `json:"level"`
	Created     string `json:"created"`
	Type        string `json:"type"`
	Description string `json:"description"`
}

type eventsBody struct {
	Count   int         `json:"count"`
	Events  []eventBody `json:"events"`
	NextURI *string     `json:"next_uri"`
	PrevURI *string     `json:"prev_uri"`
}

func (c *call) queryEvents() answer {
	limit := 100
	if given := c.params.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 {
			return text(http.StatusBadRequest, "Invalid limit: Please enter a whole number that is 1 or greater")
		}
		limit = n
	}
	least, known := levels[or(c.params.Get("level"), "INFO")]
	before, after := c.params.Get("before"), c.params.Get("after")
	switch {
	case limit > 1000:
		return text(http.StatusBadRequest, "Requested number of events %d is greater than limit: 1000", limit)
	case !known:
		return text(http.StatusBadRequest, "Unrecognised log level: %s", c.params.Get("level"))
	case before != "" && after != "":
		return text(http.StatusBadRequest, "There is undetermined behaviour when both `after` and `before` are specified.")
	}
	edge, _ := strconv.Atoi(before + after)
	var found []event
	for _, e := range c.events {
		if owner := c.params.Get("owner"); owner != "" && owner != e.user {
			continue
		}
		if e.level >= least && !e.machine.gone && c.asksFor(e.machine) && (before == "" || e.id < edge) && (after == "" || e.id > edge) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b event) int { return b.id - a.id })
	if len(found) > limit {
		if after != "" {
			found = found[len(found)-limit:]
		} else {
			found = found[:limit]
		}
	}
	body := eventsBody{Count: len(found), Events: []eventBody{}}
	for _, e := range found {
		body.Events = append(body.Events, eventBody{
			or(e.user, "unknown"), e.machine.systemID, e.machine.hostname, e.id, e.level.String(), e.at.UTC().
				Format("Mon, 02 Jan. 2006 15:04:05"), e.kind, e.description,
		})
	}
	if len(found) > 0 {
		body.NextURI = ptr(c.eventsURI("after", found[0].id))
		body.PrevURI = ptr(c.eventsURI("before", found[len(found)-1].id))
	}
	return ok(body)
}

// asksFor reports whether the query's filters admit the machine's events.
func (c *call) asksFor(m *machine) bool {
	if ids := c.params["id"]; len(ids) > 0 && !slices.Contains(ids, m.systemID) {
		return false
	}
	if hosts := c.params["hostname"]; len(hosts) > 0 && !slices.Contains(hosts, m.hostname) {
		return false
	}
	if macs := c.params["mac_address"]; len(macs) > 0 &&
		!slices.ContainsFunc(m.interfaces, func(i *iface) bool { return slices.Contains(macs, i.mac) }) {
		return false
	}
	if agents := c.params["agent_name"]; len(agents) > 0 && !slices.Contains(agents, m.agent) {
		return false
	}
	pools := c.params["pool"]
	return len(pools) == 0 || slices.Contains(pools, c.poolNamed(m.pool).name)
}

// eventsURI returns the query's URI for the events before or after the given id.
func (c *call) eventsURI(direction string, id int) string {
	var kept []string
	for _, name := range []string{"level", "limit", "id", "hostname", "mac_address", "pool", "agent_name"} {
		for _, v := range c.params[name] {
			kept = append(kept, name+"="+v)
		}
	}
	kept = append(kept, fmt.Sprintf("%s=%d", direction, id))
	return apiRoot + "events/?op=query&" + strings.Join(kept, "&")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
