package turnover

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// AutomaticPrefix begins the ids of turnovers that nobody requested, and of the runs that replace
// them.
const AutomaticPrefix = "auto-"

// ReleasePrefix begins the ids of the turnovers of released allocations, and of the runs that replace
// them.
const ReleasePrefix = "release-"

// ByThemselves begin the ids of all turnovers that count against the limit of a site.
var ByThemselves = []string{AutomaticPrefix, ReleasePrefix, ImagePrefix}

// ImagePrefix begins the ids of the reimages that install the image of an allocation.
const ImagePrefix = "image-"

// ImageOf is the id of a reimage that an allocation begins at a time.
func ImageOf(nodeID string, at time.Time) string {
	return fmt.Sprintf("%s%s-%d", ImagePrefix, nodeID, at.UnixMicro())
}

// ReleaseOf is the id of a turnover that a release begins at a time. A release may begin several turnovers of
// a node, one after another.
func ReleaseOf(nodeID string, at time.Time) string {
	return fmt.Sprintf("%s%s-%d", ReleasePrefix, nodeID, at.UnixMicro())
}

// AutomaticOf is the id of the turnover of a node that waits since a time. The id is the same for
// every start, so the turnover begins only once: a run that a person has cancelled is not begun again.
func AutomaticOf(nodeID string, since time.Time) string {
	return fmt.Sprintf("%s%s-%d", AutomaticPrefix, nodeID, since.UnixMicro())
}

// waits are the codes of reasons with which no turnover begins without a request: the node is in
// other hands, or its tenant is not gone.
var waits = []string{"node_status", "node_silent", "turnover_owed", "node_in_run", "frozen", "site_disabled", "maintenance", "allocation_live"}

// begins are the codes of reasons that a turnover ends, and that make one due.
var begins = []string{"turnover_missing", "certificate_expired", "certificate_below_policy"}

// The last part of a certificate's validity in which a free node is renewed, in percent. Where a node's
// turn comes between the two depends on its id, so that nodes certified on one day are not renewed on one day.
const (
	RenewFrom  = 30
	renewUntil = 10
)

// RenewAt is when a free node with a certificate is turned over again.
func RenewAt(nodeID string, c broker.LastCertificate) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(nodeID))
	valid := c.ValidUntil.Sub(c.IssuedAt)
	spread := valid / 100 * (RenewFrom - renewUntil) / 1000 * time.Duration(h.Sum32()%1000)
	return c.ValidUntil.Add(-valid/100*renewUntil - spread)
}

// AutomaticRequest is the request for the turnover of a node that its tenants have left, or whose
// certificate has run out, or soon does (RenewAt), or no longer suffices by a stricter policy, in a mode
// whose certificate can meet the policy. False: the node does not wait for a turnover alone, or needs
// a reimage and is no machine of MAAS, or its last turnover ended below the policy in force.
func AutomaticRequest(h broker.Handout, at Place, past Past) (Request, bool) {
	against := h.Reasons("", "")
	due := len(against) == 0 && h.Certificate != nil && !h.Now.Before(RenewAt(h.Node.ID, *h.Certificate))
	for _, r := range against {
		if slices.Contains(waits, r.Code) {
			return Request{}, false
		}
		due = due || slices.Contains(begins, r.Code)
	}
	if !due || h.EndsTheSame() {
		return Request{}, false
	}
	c := Choose(h.Node, at, h.Occupants, past)
	return Request{
		Mode: c.Mode, Erase: c.Erase, RequestedBy: broker.System.Name, From: broker.Active, ModeBecause: c.Because,
		Reason: taskcatalog.Clean(c.Explain(automaticReason(h))+" (turnover_automatic)", 500),
	}, c.Possible
}

func automaticReason(h broker.Handout) string {
	if h.Unused() {
		was := "was"
		switch valid := h.Now.Before(h.Certificate.ValidUntil); {
		case valid && len(h.Certificate.Lacks) > 0 && !h.Certificate.LacksSince.Before(h.OverrideAt):
			return fmt.Sprintf("the policy asks for more since certificate %s was issued: %s", h.Certificate.ID,
				strings.Join(h.Certificate.Lacks, ", "))
		case valid:
			was = "is"
		}
		return fmt.Sprintf("certificate %s %s valid until %s", h.Certificate.ID, was, h.Certificate.ValidUntil.UTC().Format(time.RFC3339))
	}
	last := slices.MaxFunc(h.Occupants, func(a, b broker.Occupant) int { return a.EndedAt.Compare(b.EndedAt) })
	return "allocation " + last.Describe() + " ended"
}
