package turnover

import (
	"encoding/json"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// GivenUp is the reason for which a run is cancelled whose node did not answer.
const GivenUp = "the agent did not answer the drain, and the policy has the node reimaged (reimage_when_silent)"

// TooManySilent is the code of a run whose node the policy would have reimaged, at a
// site where too many would be at once.
const TooManySilent = "too_many_silent"

// HeldBack is what such a run says: many is how many reimages there would be.
func HeldBack(site string, many, most int) (reason string, says chain.Says) {
	return fmt.Sprintf("the agent did not answer the drain, and the node is not reimaged: that would be %d nodes of site %s within an hour, more than silent_reimages_at_once (%d); so many are more likely a network's fault than the nodes'", many, site, most),
		chain.Says{Code: TooManySilent, Next: "reimage (cancel this run, and start one with --mode reimage) if it is the node; else see what keeps the agents of the site silent, then retry"}
}

// followed marks the id of a run in whose place another is. It is one and the same
// however often that is begun.
const followed = "-reimage"

// FollowerOf is the id of the reimage in place of a soft reset.
func FollowerOf(run string) string { return run + followed }

// CancelledReason is the status reason of a node whose run was taken back, until
// somebody or something else moves the node.
func CancelledReason(run string) string {
	return fmt.Sprintf("its turnover was cancelled (run %s): it is owed another", run)
}

// Silenced reads the state of a soft reset that its node's silence has stopped and
// whose policy has such a node reimaged; false: it is none.
func Silenced(r chain.Record) (s Turnover, is bool) {
	if r.Kind != SoftReset.Kind() || !r.Status.Stopped() || r.Direction != chain.Forward || r.Stage != "drain_node" || r.Failure == nil || r.Failure.Code != "agent_silent" {
		return s, false
	}
	return s, json.Unmarshal(r.State, &s) == nil && s.Policy.ReimageWhenSilent
}

// GaveUp reports whether the broker itself has had a run cancelled for a reimage.
func GaveUp(r chain.Record, by string) bool {
	return r.Status == chain.Cancelled && r.AskedBy == by && r.AskedCause == GivenUp
}

// InPlaceOf asks for the reimage of a soft reset's node: what was asked of that run, by
// the system that MAAS ends.
func InPlaceOf(run string, s Turnover) Request {
	return Request{
		Mode: Reimage, StorageCleanup: s.StorageCleanup, Erase: s.Erase, ForceRelease: s.ForceRelease, Ends: s.Ends, Follows: run, RequestedBy: "system",
		Reason: taskcatalog.Clean(fmt.Sprintf("run %s met a silent agent (reimage_when_silent): %s", run, s.Reason), 500),
	}
}

// LeftBy reports whether a node still stands as a cancelled run has left it.
func LeftBy(run string, n broker.Node) bool {
	return n.Status == broker.Quarantined && n.TurnoverOwed && n.StatusReason == CancelledReason(run)
}
