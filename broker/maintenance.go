package broker

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Maintenance is work of people on a node: now, planned, or over. It stands beside the node's status. While a
// maintenance is open, nobody new is let in.
//
//	planned ──► open ──► closed
//	   ├──► cancelled
//	   └──► missed
type Maintenance struct {
	ID, NodeID, Site string
	Status           MaintenanceStatus
	Category         MaintenanceCategory
	Tenant           MaintenanceTenant
	Planned          bool // it begins and ends by itself
	Ticket, Reason   string
	CreatedBy        string
	CreatedAt        time.Time
	From             time.Time
	Until            time.Time // expected end; zero: not known
	OpenedAt         time.Time
	ClosingAt        time.Time // the last time that somebody asked to close it
	ClosingBy        string
	ClosedAt         time.Time // closed, cancelled or missed
	ClosedBy         string
	RemindedAt       time.Time
	OverdueAt        time.Time // the passed end was announced; zero: not
	Because          string    // what keeps it from beginning, or from being closed; empty: nothing known
	Checks           MaintenanceChecks
}

// MaintenanceChecks is what a node must pass before its maintenance is closed, and what came of it.
type MaintenanceChecks struct {
	Asked []MaintenanceCheck        `json:"asked,omitempty"`
	Found []MaintenanceCheckFinding `json:"found,omitempty"`
}

// MaintenanceCheckFinding is the result of one check.
type MaintenanceCheckFinding struct {
	Check   MaintenanceCheck `json:"check"`
	Passed  bool             `json:"passed"`
	Code    string           `json:"code,omitempty"`
	Message string           `json:"message,omitempty"`
}

// MaintenancePrefix begins the ids of maintenances.
const MaintenancePrefix = "mnt-"

// MaintenanceStatus is where a maintenance is.
type MaintenanceStatus string

// The statuses. MaintenanceClosed, MaintenanceCancelled and MaintenanceMissed are final.
const (
	MaintenancePlanned   MaintenanceStatus = "planned"
	MaintenanceOpen      MaintenanceStatus = "open"
	MaintenanceClosed    MaintenanceStatus = "closed"
	MaintenanceCancelled MaintenanceStatus = "cancelled" // before it began
	MaintenanceMissed    MaintenanceStatus = "missed"    // its whole time passed, and no broker ran or the node was in another maintenance
)

// MaintenanceStatuses lists all statuses.
var MaintenanceStatuses = []MaintenanceStatus{
	MaintenancePlanned, MaintenanceOpen, MaintenanceClosed, MaintenanceCancelled, MaintenanceMissed,
}

// maintenanceTransitions is the whole table.
var maintenanceTransitions = map[MaintenanceStatus][]MaintenanceStatus{
	"":                 {MaintenancePlanned, MaintenanceOpen},
	MaintenancePlanned: {MaintenanceOpen, MaintenanceCancelled, MaintenanceMissed},
	MaintenanceOpen:    {MaintenanceClosed},
}

// TransitionMaintenance refuses a change of status that the table does not have. Code: maintenance_status.
func TransitionMaintenance(m Maintenance, to MaintenanceStatus) error {
	if slices.Contains(maintenanceTransitions[m.Status], to) {
		return nil
	}
	return Errorf(Refused, "maintenance_status", "cannot move maintenance %s of node %s from %s to %s (see hostler maintenance show %s)",
		m.ID, m.NodeID, m.Status, to, m.ID)
}

// Live reports whether the maintenance keeps its node out.
func (s MaintenanceStatus) Live() bool { return s == MaintenanceOpen }

// Ended reports whether the status is final.
func (s MaintenanceStatus) Ended() bool { return s != MaintenancePlanned && !s.Live() }

// MaintenanceCategory is what the work is about.
type MaintenanceCategory string

// MaintenanceCategories lists the categories.
var MaintenanceCategories = []MaintenanceCategory{
	"gpu", "cpu", "memory", "disk", "network", "power", "cooling", "board", "firmware", "planned", "other",
}

// MaintenanceTenant says what becomes of the tenant who is on the node.
type MaintenanceTenant string

// The two words.
const (
	TenantStays  MaintenanceTenant = "stays"  // nobody new is let in
	TenantLeaves MaintenanceTenant = "leaves" // the platform releases the allocation
)

// MaintenanceCheck is what a node must pass before its maintenance is closed.
type MaintenanceCheck string

// The checks.
const (
	// CheckParts: the agent was heard lately, and no part is missing or unexpected.
	CheckParts MaintenanceCheck = "parts"
	// CheckTurnedOver: a turnover since the maintenance was opened has scrubbed the GPUs, validated the node and given it
	// a certificate that meets the policy. A part that was elsewhere may hold data of others.
	CheckTurnedOver MaintenanceCheck = "turned_over"
)

// needTurnover are the categories in which parts that hold data are touched.
var needTurnover = []MaintenanceCategory{"gpu", "memory", "disk", "board", "other"}

// ChecksOf returns what a node must pass before its maintenance is closed, with the findings. A node with a tenant is not
// turned over: the tenant has seen what is there.
func (m Maintenance) ChecksOf(h Handout) (c MaintenanceChecks) {
	c.Asked = []MaintenanceCheck{CheckParts}
	parts := MaintenanceCheckFinding{Check: CheckParts, Passed: true}
	if h.Node.Silent(h.Now) { // whatever its status is
		parts = MaintenanceCheckFinding{
			Check: CheckParts, Code: "node_silent",
			Message: "its agent was not heard for more than " + SilentAfter.String() + " (start the machine and its agent)",
		}
	}
	for _, r := range h.machine() {
		if parts.Passed && (r.Code == "device_missing" || r.Code == "device_unexpected") {
			parts = MaintenanceCheckFinding{Check: CheckParts, Code: r.Code, Message: r.Message + " (" + r.Next + ")"}
		}
	}
	c.Found = append(c.Found, parts)
	if !slices.Contains(needTurnover, m.Category) || slices.ContainsFunc(h.Occupants, Occupant.Live) {
		return c
	}
	c.Asked = append(c.Asked, CheckTurnedOver)
	clean := MaintenanceCheckFinding{Check: CheckTurnedOver, Passed: true}
	switch cert := h.Certificate; {
	case cert == nil || !cert.IssuedAt.After(m.OpenedAt):
		clean = MaintenanceCheckFinding{
			Check: CheckTurnedOver, Code: "turnover_missing",
			Message: "the node was not turned over since the maintenance was opened (hostler decommission start " + h.Node.ID + " --mode soft_reset --reason R)",
		}
	case came(h.Devices, cert.IssuedAt) != "":
		clean = MaintenanceCheckFinding{
			Check: CheckTurnedOver, Code: "turnover_missing",
			Message: came(h.Devices, cert.IssuedAt) + " is in the node since certificate " + cert.ID +
				" was issued (hostler decommission start " + h.Node.ID + " --mode soft_reset --reason R)",
		}
	case !cert.MeetsPolicy:
		clean = MaintenanceCheckFinding{
			Check: CheckTurnedOver, Code: "certificate_falls_short",
			Message: "certificate " + cert.ID + " does not meet the policy: " + strings.Join(cert.Shortfalls, ", ") + " (hostler certificate get " + cert.ID + ")",
		}
	}
	c.Found = append(c.Found, clean)
	return c
}

// came returns the first part that came, or came back, after a time; empty: none.
func came(parts []Device, after time.Time) string {
	for _, d := range parts {
		if d.State == DeviceFound && d.Since.After(after) {
			return string(d.Kind) + " " + d.ID
		}
	}
	return ""
}

// Failed returns the first check that was not passed, in words; empty: all were.
func (c MaintenanceChecks) Failed() string {
	for _, f := range c.Found {
		if !f.Passed {
			return "check " + string(f.Check) + " failed: " + f.Code + ": " + f.Message
		}
	}
	return ""
}

// MaintenanceLead is how long before a planned maintenance the tenant is told once more.
const MaintenanceLead = 24 * time.Hour

// MaintenanceRetry is how long after a failed check the checks of a planned maintenance are made again.
const MaintenanceRetry = time.Minute

// Bounds of a maintenance.
const (
	MaxPlannedMaintenances = 50  // of a node
	MaxMaintenanceNotes    = 200 // of a maintenance
	maxMaintenance         = 366 * 24 * time.Hour
)

// Check refuses a maintenance that cannot be made at a time. Code: maintenance_invalid.
func (m Maintenance) Check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "maintenance_invalid", "cannot make a maintenance: "+format, args...)
	}
	switch {
	case !slices.Contains(MaintenanceCategories, m.Category):
		words := make([]string, len(MaintenanceCategories))
		for i, c := range MaintenanceCategories {
			words[i] = string(c)
		}
		return bad("%q is no category (%s)", taskcatalog.Clean(string(m.Category), 40), strings.Join(words, ", "))
	case m.Tenant != TenantStays && m.Tenant != TenantLeaves:
		return bad("the tenant %q neither stays nor leaves", taskcatalog.Clean(string(m.Tenant), 40))
	case !m.Until.IsZero() && !m.Until.After(m.From):
		return bad("its end lies before its beginning")
	case !m.Until.IsZero() && !m.Until.After(now):
		return bad("its end has passed")
	case m.Planned && m.Until.IsZero():
		return bad("a planned maintenance needs an end (--until TIME)")
	case m.From.Sub(now) > maxMaintenance || !m.Until.IsZero() && m.Until.Sub(m.From) > maxMaintenance:
		return bad("it begins in more than a year, or takes longer")
	}
	return nil
}

// Overlaps reports whether two maintenances claim the same time of a node. One without an end claims all
// time from its beginning; an open one whose end has passed claims the present.
func (m Maintenance) Overlaps(o Maintenance) bool {
	return (o.Until.IsZero() || m.From.Before(o.Until)) && (m.Until.IsZero() || o.From.Before(m.Until))
}

// MaintenanceStep is what is due for a maintenance by date.
type MaintenanceStep string

// The steps. The empty step: nothing is due.
const (
	MaintenanceBegins  MaintenanceStep = "begins"
	MaintenanceMisses  MaintenanceStep = "misses"
	MaintenanceReminds MaintenanceStep = "reminds"
	MaintenanceEnds    MaintenanceStep = "ends"
	MaintenanceOverdue MaintenanceStep = "overdue"
)

// Due returns what is due at a time. The answer follows from the dates alone, however long no broker looked.
func (m Maintenance) Due(now time.Time) MaintenanceStep {
	passed := !m.Until.IsZero() && !now.Before(m.Until)
	switch {
	case m.Status == MaintenancePlanned && passed:
		return MaintenanceMisses
	case m.Status == MaintenancePlanned && !now.Before(m.From):
		return MaintenanceBegins
	case m.Status == MaintenancePlanned && m.RemindedAt.IsZero() && !now.Before(m.From.Add(-MaintenanceLead)):
		return MaintenanceReminds
	case m.Status == MaintenanceOpen && passed && m.Planned:
		return MaintenanceEnds
	case m.Status.Live() && passed && m.OverdueAt.IsZero():
		return MaintenanceOverdue
	}
	return ""
}

// Overdue reports whether the maintenance is open although its expected end has passed.
func (m Maintenance) Overdue(now time.Time) bool {
	return m.Status.Live() && !m.Until.IsZero() && !now.Before(m.Until)
}

// MaintenanceNotFound is the answer about a maintenance that does not exist, or that the caller may not see.
// Code: maintenance_not_found.
func MaintenanceNotFound(id string) *Error {
	return Errorf(NotFound, "maintenance_not_found", "there is no maintenance %q (see hostler maintenance list)", cleanText(id))
}

// MaintenanceNote is what somebody wrote about a maintenance.
type MaintenanceNote struct {
	Number int
	At     time.Time
	Author string
	Text   string
}

// OpenMaintenance is the maintenance that keeps a node out.
type OpenMaintenance struct {
	ID       string // empty: none
	Category MaintenanceCategory
	Ticket   string
	Until    time.Time
}
