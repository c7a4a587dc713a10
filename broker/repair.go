package broker

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Repair is one repair of a machine, by part. It outlives its node.
type Repair struct {
	ID, NodeID, Hostname, Site string // of the machine; empty: the part was in no node on record
	MaintenanceID              string // empty: none
	Source                     RepairSource
	Category                   MaintenanceCategory
	Action                     RepairAction
	Part                       string // kind of the part, such as gpu
	Old, New                   RepairPart
	Ticket, Note               string
	RecordedBy                 string
	RecordedAt                 time.Time
	OpenedAt                   time.Time
	ClosedAt                   time.Time // zero: not ended
}

// RepairPart is a part as its label names it.
type RepairPart struct{ Model, Serial string }

// RepairPrefix begins the ids of repairs.
const RepairPrefix = "rep-"

// RepairSource says where a row comes from.
type RepairSource string

// The sources.
const (
	RepairByHand   RepairSource = "hand"   // a person, or a CSV file
	RepairByDevice RepairSource = "device" // an accepted or attested device
)

// RepairAction is what was done.
type RepairAction string

// RepairActions lists the actions.
var RepairActions = []RepairAction{"replaced", "repaired", "reseated", "added", "removed", "returned"}

// The policy of replacement: so many repairs of one node's kind of part within a time ask for another machine. A part that
// was added or returned is no repair of the machine.
const (
	RepairsToReplace = 3
	RepairsWithin    = 90 * 24 * time.Hour
)

// Check refuses a repair that says nothing. Code: repair_invalid.
func (r Repair) Check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "repair_invalid", "cannot record a repair: "+format, args...)
	}
	switch {
	case !slices.Contains(MaintenanceCategories, r.Category):
		return bad("%q is no category", taskcatalog.Clean(string(r.Category), 40))
	case !slices.Contains(RepairActions, r.Action):
		words := make([]string, len(RepairActions))
		for i, a := range RepairActions {
			words[i] = string(a)
		}
		return bad("%q is no action (%s)", taskcatalog.Clean(string(r.Action), 40), strings.Join(words, ", "))
	case r.NodeID == "" && r.Old.Serial == "" && r.New.Serial == "":
		return bad("it names neither a node nor a serial number")
	case r.Action == "replaced" && (r.Old.Serial == "" || r.New.Serial == "" || r.Old.Serial == r.New.Serial):
		return bad("a replaced part has an old serial number and another new one")
	case r.OpenedAt.After(now) || r.ClosedAt.After(now):
		return bad("it lies ahead")
	case !r.ClosedAt.IsZero() && r.ClosedAt.Before(r.OpenedAt):
		return bad("it ended before it began")
	}
	return nil
}
