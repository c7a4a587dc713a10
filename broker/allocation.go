package broker

import (
	"slices"
	"time"
)

// AllocationStatus is how far an allocation is.
type AllocationStatus string

// The statuses. AllocationReleased and AllocationFailed are final.
const (
	AllocationRequested     AllocationStatus = "requested"      // nodes are claimed, nothing was asked of them
	AllocationProvisioning  AllocationStatus = "provisioning"   // the nodes are being made ready for the tenant
	AllocationActive        AllocationStatus = "active"         // the tenant uses the nodes
	AllocationReleasing     AllocationStatus = "releasing"      // the tenant is removed, and the nodes are cleaned
	AllocationReleased      AllocationStatus = "released"       // the cleaning is proven
	AllocationFailed        AllocationStatus = "failed"         // provisioning was given up
	AllocationReleaseFailed AllocationStatus = "release_failed" // the release's retries are used up
)

// AllocationStatuses lists all statuses.
var AllocationStatuses = []AllocationStatus{
	AllocationRequested, AllocationProvisioning, AllocationActive, AllocationReleasing, AllocationReleased, AllocationFailed,
	AllocationReleaseFailed,
}

// Ended reports whether no transition leaves the status. The allocation then holds no node.
func (s AllocationStatus) Ended() bool { return s == AllocationReleased || s == AllocationFailed }

// AllocationKeysRefused is the code of an allocation that failed because no node accepts its SSH keys.
const AllocationKeysRefused = "ssh_keys_refused"

// AllocationImageNotInstalled is the code of an allocation that failed because a node did not get its image.
const AllocationImageNotInstalled = "image_not_installed"

// AllocationBeginOperation is the code of an allocation that failed because the operation of its begin did not end well.
const AllocationBeginOperation = "begin_operation_failed"

// AllocationEndOperation is the code of an allocation whose release stopped because the operation that its SKU names for
// the end did not end well.
const AllocationEndOperation = "end_operation_failed"

// AllocationEndPassed is the code of a release that goes on, by the site's policy, without that operation.
const AllocationEndPassed = "end_operation_passed"

// Failure describes a failure to the tenant, with the next action. Empty: nothing failed.
func (a Allocation) Failure() string {
	switch {
	case a.Status == AllocationFailed && a.Code == AllocationKeysRefused:
		return "the SSH server of a node accepts none of the keys, and the allocation holds no node (ask again with a key of another type, such as ssh-ed25519, or with a longer RSA key)"
	case a.Status == AllocationFailed && a.Code == AllocationImageNotInstalled:
		return "the image could not be installed on the nodes, and the allocation holds none (ask again, or without an image; if that fails too, tell the platform's operators the id and the code)"
	case a.Status == AllocationFailed && a.Code == AllocationBeginOperation:
		return "the operation that runs when an allocation begins did not end well, and the allocation holds no node (hostler operation list shows it; ask again, and if that fails too, tell the platform's operators the id and the code)"
	case a.Status == AllocationFailed:
		return "the nodes could not be made ready, and the allocation holds none (ask again; if that fails too, tell the platform's operators the id and the code)"
	case a.Status == AllocationReleaseFailed && a.Code == AllocationEndOperation && !a.GoesOnAt.IsZero():
		return "the operation that runs when an allocation ends did not end well, so the accounts stay until " + a.GoesOnAt.UTC().Format(time.RFC3339) + ", when the release goes on without it, and the allocation still counts against the quota (hostler operation list shows it; release the allocation again, which tries it again)"
	case a.Status == AllocationReleaseFailed && a.Code == AllocationEndOperation:
		return "the operation that runs when an allocation ends did not end well, so the accounts stay, and the allocation still counts against the quota (hostler operation list shows it; release the allocation again, which tries it again; if that fails too, tell the platform's operators the id and the code)"
	case a.Status == AllocationReleaseFailed:
		return "the tenant could not be removed or the nodes could not be cleaned, and the allocation still counts against the quota (release it again; if that fails too, tell the platform's operators the id and the code)"
	}
	return ""
}

// AllocationOwner names who makes a transition of an allocation.
type AllocationOwner string

// The owners.
const (
	AllocationWorker  AllocationOwner = "worker"  // the run that provisions or releases, and the policy that passes over an operation of the end
	AllocationUser    AllocationOwner = "user"    // a member of the project
	AllocationBilling AllocationOwner = "billing" // the end of a credit or a quota
	AllocationAdmin   AllocationOwner = "admin"   // a platform admin
)

// AllocationOwners lists all owners.
var AllocationOwners = []AllocationOwner{AllocationWorker, AllocationUser, AllocationBilling, AllocationAdmin}

// AllocationNotFound is the answer about an allocation that does not exist, or that the caller may
// not know.
func AllocationNotFound(id string) *Error {
	return Errorf(NotFound, "allocation_not_found", "there is no allocation %q (see hostler allocation list)", cleanText(id))
}

// AllocationPrefix begins the ids of allocations.
const AllocationPrefix = "alc-"

// Allocation is what a project asked for and holds: nodes, or GPUs of a node. The tenant's user on
// one node is an Occupant.
type Allocation struct {
	ID        string
	ProjectID string
	Status    AllocationStatus
	SKU       string
	Nodes     int    // whole nodes; 0: GPUs of one node
	GPUs      int    // GPUs of one node; 0: whole nodes
	Site      string // where its nodes are
	Image     string // asked for; empty: whatever the nodes have
	KeyIDs    []string
	EndsAt    time.Time // when the allocation is to be released; zero: never
	Labels    map[string]string
	NodeIDs   []string // the claimed nodes, by id; the claims end with the allocation
	// Forced: a platform admin forced the present release, which goes on without the operation of its end.
	Forced bool
	// GoesOnAt is when a failed release goes on by itself, without the operation of its end; zero: it waits for a person.
	// PassedAt is when it did; zero: it did not.
	GoesOnAt, PassedAt time.Time
	// Code says why the allocation failed or its release failed; the tenant may see it. Empty: no
	// failure.
	Code           string
	CertificateIDs []string // of the turnovers that ended the allocation, one a node

	// When a status was reached; zero: never. A retried release keeps ReleasingAt.
	RequestedAt, ProvisioningAt, ActiveAt, ReleasingAt, ReleasedAt, FailedAt, ReleaseFailedAt time.Time
}

// AllocationAccount is the name of the account that an allocation's tenant has on each of its nodes.
const AllocationAccount = "tenant"

type allocationEdge struct{ from, to AllocationStatus }

// allocationTransitions is the whole table: each pair of statuses with the owners of the
// transition. Every pair outside the table is refused.
var allocationTransitions = map[allocationEdge][]AllocationOwner{
	{AllocationRequested, AllocationProvisioning}:  {AllocationWorker},
	{AllocationProvisioning, AllocationActive}:     {AllocationWorker},
	{AllocationProvisioning, AllocationFailed}:     {AllocationWorker},
	{AllocationActive, AllocationReleasing}:        {AllocationUser, AllocationBilling, AllocationAdmin},
	{AllocationReleasing, AllocationReleased}:      {AllocationWorker},
	{AllocationReleasing, AllocationReleaseFailed}: {AllocationWorker},
	{AllocationReleaseFailed, AllocationReleasing}: {AllocationUser, AllocationAdmin, AllocationWorker},
}

// waitFor is the next action where a transition is refused that a later status permits.
var waitFor = map[AllocationStatus]string{
	AllocationRequested:    " (wait until it is active or has failed)",
	AllocationProvisioning: " (wait until it is active or has failed)",
}

// TransitionAllocation says whether the owner may move an allocation from its status to another. It
// is the only user of the table. The Code of a failure and the CertificateIDs of a release must be
// set before. Codes: transition_refused, certificate_missing, failure_code_missing. Staying in the
// same status is no transition: callers look first.
func TransitionAllocation(a Allocation, to AllocationStatus, by AllocationOwner) error {
	owners, ok := allocationTransitions[allocationEdge{a.Status, to}]
	switch {
	case !ok:
		return Errorf(Refused, "transition_refused", "cannot move allocation %s from %s to %s: there is no such transition%s", a.ID,
			a.Status, to, waitFor[a.Status])
	case !slices.Contains(owners, by):
		return Errorf(Refused, "transition_refused", "cannot move allocation %s from %s to %s: %s does not own that transition", a.ID,
			a.Status, to, by)
	case a.Status == AllocationReleaseFailed && by == AllocationWorker && a.Code != AllocationEndOperation:
		return Errorf(Refused, "transition_refused", "cannot move allocation %s from %s to %s: it waits for a person, because of %s", a.ID,
			a.Status, to, a.Code)
	case to == AllocationReleased && len(a.CertificateIDs) < max(a.Nodes, 1):
		return Errorf(Refused, "certificate_missing",
			"cannot release allocation %s: there are %d certificates for its %d nodes (turn each node over first)", a.ID,
			len(a.CertificateIDs), max(a.Nodes, 1))
	case (to == AllocationFailed || to == AllocationReleaseFailed) && a.Code == "":
		return Errorf(Refused, "failure_code_missing", "cannot move allocation %s to %s: the code of the failure is missing", a.ID, to)
	}
	return nil
}

// PassesEnd reports whether a failed release that somebody lets go on at a moment goes on without the operation of its end.
// The time of the policy counts for everybody, so that a tenant who releases again sooner than the policy looks gains no attempt.
func (a Allocation) PassesEnd(by AllocationOwner, at time.Time) bool {
	switch {
	case a.Status != AllocationReleaseFailed:
		return false
	case by == AllocationWorker:
		return true
	}
	return a.Code == AllocationEndOperation && !a.GoesOnAt.IsZero() && !at.Before(a.GoesOnAt)
}

// Reach moves the allocation to a status, at a time.
func (a *Allocation) Reach(to AllocationStatus, at time.Time) {
	a.Status = to
	switch to {
	case AllocationRequested:
		a.RequestedAt = at
	case AllocationProvisioning:
		a.ProvisioningAt = at
	case AllocationActive:
		a.ActiveAt = at
	case AllocationReleasing:
		if a.ReleasingAt.IsZero() { // a retry goes on with the same release
			a.ReleasingAt = at
		}
		a.Code, a.GoesOnAt = "", time.Time{}
	case AllocationReleased:
		a.ReleasedAt = at
	case AllocationFailed:
		a.FailedAt = at
	case AllocationReleaseFailed:
		a.ReleaseFailedAt = at
	}
}
