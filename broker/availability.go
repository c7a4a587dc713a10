package broker

import (
	"cmp"
	"slices"
	"strings"
)

// Availability says in one word whether a node may be handed to a tenant, and if not, what stands
// in the way. The word follows from the reasons of Handout, the only judge. Lists, metrics and
// events use the word; whoever hands out a node asks Handout again.
type Availability string

// The words. Later words of the list take precedence when several reasons apply, see
// Handout.Availability.
const (
	// AvailabilityUnknown: nobody has judged the node yet, or for too long. Unknown is never available.
	AvailabilityUnknown Availability = "unknown"
	Available           Availability = "available"
	InTurnover          Availability = "in_turnover"    // a turnover moves, or waits to begin
	InMaintenance       Availability = "maintenance"    // an operator, or a run on the agent, keeps the node or its site out for a time
	Held                Availability = "held"           // somebody must act before the node comes back
	OutOfService        Availability = "out_of_service" // not in service yet, or not any more
	Allocated           Availability = "allocated"      // a tenant is on the node
)

// Availabilities lists all words, in the order of precedence.
var Availabilities = []Availability{
	AvailabilityUnknown, Available, InTurnover, InMaintenance, Held, OutOfService, Allocated,
}

// availabilityOf gives the word of each reason code. A code without a row is held: a new reason
// must not look like work that ends by itself. The codes node_status and node_in_run need more
// facts, see Handout.word.
var availabilityOf = map[string]Availability{
	"node_silent":              Held,
	"turnover_owed":            Held, // a turnover ended without a certificate, and nothing begins another
	"frozen":                   InMaintenance,
	"site_disabled":            InMaintenance,
	"maintenance":              InMaintenance,
	"allocation_live":          Allocated,
	"turnover_missing":         InTurnover, // the node waits for the turnover
	"certificate_falls_short":  Held,
	"certificate_expired":      Held,
	"certificate_below_policy": Held,
	"certificate_not_judged":   Held,
	"provisioning_failing":     Held,
	"device_missing":           Held,
	"device_unexpected":        Held,
}

// availabilityOfStatus gives the word of each status but active, for a node without a moving turnover.
var availabilityOfStatus = map[NodeStatus]Availability{
	BootstrapIssued: OutOfService,
	Enrolling:       OutOfService,
	Offline:         Held,
	Quarantined:     Held,
	Draining:        InMaintenance,
	Retired:         OutOfService,
	Removing:        OutOfService,
	Deleted:         OutOfService,
}

// Availability returns the node's word, and the codes of all reasons against handing the node out.
// The first code is the one that decided the word; available has no code. The rules:
//
//  1. A deleted node is out of service.
//  2. A node with a live allocation is allocated, whatever else is wrong with the node. A claim alone,
//     whose tenant has left or has not come yet, gives way to a moving turnover.
//  3. A node that a moving turnover holds is in turnover: the status, the silence and the missing
//     certificate are what the turnover is for. A turnover that waits for a person holds the node.
//  4. A node in an open maintenance is in maintenance: that it is silent, that a part is missing, or that a turnover is
//     owed, is what the maintenance is for. A node that is not in service stays out of service.
//  5. Otherwise each reason has a word, and the strongest word stands.
func (h Handout) Availability() (word Availability, codes []string) {
	word = Available
	deciding := ""
	for _, r := range h.Reasons("", "") {
		if !slices.Contains(codes, r.Code) {
			codes = append(codes, r.Code)
		}
		if of := h.word(r.Code); slices.Index(Availabilities, of) > slices.Index(Availabilities, word) {
			word, deciding = of, r.Code
		}
	}
	if i := slices.Index(codes, deciding); i > 0 {
		codes = slices.Concat([]string{deciding}, codes[:i], codes[i+1:])
	}
	return word, codes
}

// word returns the word of one reason; available: the reason does not count.
func (h Handout) word(code string) Availability {
	moves := !strings.HasPrefix(h.Run, "failed_") // otherwise the run waits for a person
	turnsOver := h.RunID != "" && moves && RunKindOf(h.RunKind).TurnsOver
	if h.Maintenance.ID != "" && !turnsOver && code != "maintenance" {
		return h.wordInMaintenance(code)
	}
	switch {
	case code == "node_status" && (h.Node.Status == Deleted || !turnsOver):
		return cmp.Or(availabilityOfStatus[h.Node.Status], Held)
	case h.Node.Status == Deleted:
		return Available
	case code == "node_in_run" && turnsOver:
		return InTurnover
	case code == "node_in_run" && moves:
		return InMaintenance
	case turnsOver && (code != "allocation_live" || !slices.ContainsFunc(h.Occupants, Occupant.Live)):
		return Available
	}
	return cmp.Or(availabilityOf[code], Held)
}

// wordInMaintenance returns the word of another reason while a maintenance is open; available: the reason does not
// count.
func (h Handout) wordInMaintenance(code string) Availability {
	switch {
	case code == "node_status" && availabilityOfStatus[h.Node.Status] == OutOfService:
		return OutOfService
	case h.Node.Status != Deleted && code == "allocation_live" && slices.ContainsFunc(h.Occupants, Occupant.Live):
		return Allocated
	}
	return Available
}
