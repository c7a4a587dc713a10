package turnover

import (
	"encoding/json"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// SilentCancelReason is the reason for the cancel of a run whose node did not answer. It is stored
// and compared with what other releases stored, so the text never changes.
const SilentCancelReason = "the agent did not answer the drain, and the policy has the node reimaged (reimage_when_silent)"

// TooManySilent is the code of a run whose node the policy would reimage, at a site with too many
// such reimages at once.
const TooManySilent = "too_many_silent"

// TooManySilentReason is the reason and the advice of such a run. many is the number of reimages
// there would be.
func TooManySilentReason(site string, many, most int) (reason string, says chain.Says) {
	return fmt.Sprintf("the agent did not answer the drain, and the node is not reimaged: %d nodes of site %s would be reimaged within an hour, more than silent_reimages_at_once (%d); a network fault is likely", many, site, most),
		chain.Says{
			Code: TooManySilent,
			Next: "if the node is at fault, reimage it (cancel this run, and start one with --mode reimage); otherwise find out why the site's agents are silent, then retry",
		}
}

// replacementSuffix marks the id of a run that replaces another run. The id is the same for every
// start, so the replacement begins only once.
const replacementSuffix = "-reimage"

// FollowerOf is the id of the reimage in place of a soft reset.
func FollowerOf(run string) string { return run + replacementSuffix }

// CancelledReason is the status reason of a node after a cancelled run, until the node moves
// again. It is stored and compared with what other releases stored, so the text never changes.
func CancelledReason(run string) string {
	return fmt.Sprintf("its turnover was cancelled (run %s): it is owed another", run)
}

// SilentSoftReset reads the state of a soft reset that stopped because its node is silent, under a
// policy with reimage_when_silent; false: another run.
func SilentSoftReset(r chain.Record) (s Turnover, is bool) {
	if r.Kind != SoftReset.Kind() || !r.Status.Stopped() || r.Direction != chain.Forward || r.Stage != "drain_node" || r.Failure == nil ||
		r.Failure.Code != "agent_silent" {
		return s, false
	}
	return s, json.Unmarshal(r.State, &s) == nil && s.Policy.ReimageWhenSilent
}

// CancelledForReimage reports whether the broker itself cancelled a run for a reimage.
func CancelledForReimage(r chain.Record, by string) bool {
	return r.Status == chain.Cancelled && r.AskedBy == by && r.AskedCause == SilentCancelReason
}

// ReplacementRequest is the request for the reimage in place of a soft reset, with the same
// cleanup, the same erase and the same allocations to end by force.
func ReplacementRequest(run string, s Turnover) Request {
	return Request{
		Mode: Reimage, StorageCleanup: s.StorageCleanup, Erase: s.Erase, ForceRelease: s.ForceRelease, Ends: s.Ends, Follows: run,
		RequestedBy: "system",
		Reason:      taskcatalog.Clean(fmt.Sprintf("run %s met a silent agent (reimage_when_silent): %s", run, s.Reason), 500),
	}
}

// UnchangedSinceCancel reports whether a node is still in the state in which a cancelled run left
// it.
func UnchangedSinceCancel(run string, n broker.Node) bool {
	return n.Status == broker.Quarantined && n.TurnoverOwed && n.StatusReason == CancelledReason(run)
}
