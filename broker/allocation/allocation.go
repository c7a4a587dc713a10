package allocation

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Work is the state of a run.
type Work struct {
	AllocationID string   `json:"allocation_id"`
	Tenant       string   `json:"tenant"` // the project's id
	NodeIDs      []string `json:"node_ids"`
	// Ready are the nodes that have the tenant's account, and have proven that it can log in, but for the
	// unproven ones.
	Ready []string `json:"ready,omitempty"`
	// Unproven are the ready nodes whose agents are of a release that cannot prove a login.
	Unproven []string `json:"unproven,omitempty"`
	// Unfit are the nodes whose agent failed or refused to make the account or to prove the login, in any
	// attempt.
	Unfit []string `json:"unfit,omitempty"`
	// Faults are the failures of nodes that are not ready, or on which the account did not end, for reasons of their own:
	// the last one a node.
	Faults []broker.ProvisionFault `json:"faults,omitempty"`
	// HoldAfter is from how many such failures in a row on a node is held.
	HoldAfter int `json:"hold_after,omitempty"`
	// Installing are the nodes for which this run has begun a reimage. A reimage that ends without the image is
	// not begun again.
	Installing []string `json:"installing,omitempty"`
	// Unended are the nodes on which the end of an operation of the allocation is unknown. They are reimaged.
	Unended []string `json:"unended,omitempty"`
	// Begun are the nodes whose turnover this run has begun. A turnover that ends without a
	// certificate is not begun again by the same run.
	Begun []string `json:"begun,omitempty"`
	// Followed are the turnovers that this run has seen under way, or has resumed. Such a turnover that
	// stops ends the release.
	Followed []string `json:"followed,omitempty"`
	// GraceSeconds is how long the tenant's processes have to end.
	GraceSeconds int `json:"grace_seconds"`
	// Failure is the code and the message of the failure for which the run gives up.
	FailureCode    string `json:"failure_code,omitempty"`
	FailureMessage string `json:"failure_message,omitempty"`
}

// Records is the port to the broker's records and to the nodes. A method may be called again with
// the same arguments, and then changes nothing more.
type Records interface {
	taskstage.Tasks

	// Allocation reads an allocation. Code: allocation_not_found.
	Allocation(ctx context.Context, id string) (broker.Allocation, error)
	// Reach moves an allocation to a status, as the worker. Codes: see store.TransitionAllocation.
	Reach(ctx context.Context, id string, c Change) error
	// Keys are the public keys of an allocation, a line each. Code: ssh_key_not_found, for a key that
	// is no live key of a live member any more.
	Keys(ctx context.Context, a broker.Allocation) ([]string, error)
	// Addresses are where MAAS has the nodes, by node, or where a login was proven before. An address that
	// is not known is missing.
	Addresses(ctx context.Context, a broker.Allocation) (map[string]string, error)
	// NoteLogin records what a node proved: the address, and the key of its SSH server as a line.
	NoteLogin(ctx context.Context, a broker.Allocation, nodeID string, proof taskcatalog.CheckLoginResult) error
	// NoteRefusedKeys records the fingerprints of the keys that a node's SSH server does not accept.
	NoteRefusedKeys(ctx context.Context, a broker.Allocation, nodeID string, fingerprints []string) error
	// KeyAcceptedBefore reports whether a login was proven at the same site before with a key of the allocation.
	KeyAcceptedBefore(ctx context.Context, a broker.Allocation) (bool, error)
	// Account says whether the allocation's account may be on a node, or was on it since the node was
	// last handed out clean.
	Account(ctx context.Context, a broker.Allocation, nodeID string) (Account, error)
	// Proven are the certificates that end the allocation, or that were issued after it failed, by node. A
	// node without one is missing.
	Proven(ctx context.Context, a broker.Allocation) (map[string]string, error)
	// Holder is the live run that has a node; nil: none.
	Holder(ctx context.Context, nodeID string) (*chain.Record, error)
	// TurnOver begins a turnover of a node, which ends what is left of the allocation on the node. waits
	// says why the turnover has not begun: another run has taken the node meanwhile, or the site has no
	// place for another turnover; empty: it has begun. Codes: those of turnover.New.
	// reimage is why nothing but a reimage will do; empty: the site's policy decides.
	TurnOver(ctx context.Context, a broker.Allocation, nodeID, cause, reimage string) (waits string, err error)
	// HaveImage are the nodes of an allocation that have the image that was asked for.
	HaveImage(ctx context.Context, a broker.Allocation) (map[string]bool, error)
	// Install begins a reimage of a node with the image of an allocation. waits and codes: as of TurnOver.
	Install(ctx context.Context, a broker.Allocation, nodeID string) (waits string, err error)
	// Bound is the operation that the SKU of an allocation names for a trigger, or else its project. If w permits, it is
	// begun where it was not, and tried again. waits says why none has begun yet. Nil without waits: there is none.
	// Codes: those of operationrecords.New.
	Bound(ctx context.Context, a broker.Allocation, t broker.OperationTrigger, w Wish) (o *broker.Operation, waits string, err error)
	// Left says what is known of the operation of a trigger on the nodes of an allocation.
	Left(ctx context.Context, a broker.Allocation, t broker.OperationTrigger) (Left, error)
	// EndOthers asks for the end of all operations of people on the nodes of an allocation, and returns those that may still
	// run, by node. Of a group, only the part on these nodes ends.
	EndOthers(ctx context.Context, a broker.Allocation) (map[string]string, error)
	// GiveUp asks for the end of an operation. One that has ended stays as it is.
	GiveUp(ctx context.Context, operationID, reason string) error
	// Replaced reports whether a reimage is about to begin in place of one of these runs, which the node's
	// silence has stopped, or was cancelled for that.
	Replaced(ctx context.Context, nodeID string, runIDs []string) (bool, error)
	// Resume lets a stopped run go on. A run that moves or has ended stays unchanged.
	Resume(ctx context.Context, runID, reason string) error
}

// Wish says how far an operation of an allocation may begin.
type Wish struct {
	Begin bool
	// Again is a time: an operation that ended before it without success is tried again.
	Again time.Time
}

// Account is an allocation's account on a node.
type Account string

// What is known of an account.
const (
	NoAccount    Account = "none"  // the account was never there since the node was last clean
	AccountLives Account = "lives" // the account may be there
	AccountEnded Account = "ended" // the node has reported that the account is gone
	NodeGone     Account = "gone"  // the node is deleted, and handed to nobody again
)

// Change is a status that a run gives its allocation.
type Change struct {
	To             broker.AllocationStatus
	Code, Reason   string
	CertificateIDs []string
	RunID          string
	// Provisioned are the nodes that are ready, and Faults those that are not, for reasons of their own.
	Provisioned []string
	Faults      []broker.ProvisionFault
	HoldAfter   int
}

// The codes of a failed allocation and of a failed release. A tenant sees them, so they name neither
// nodes nor other tenants. The failure itself stands in the audit log and in the run.
const (
	CodeKeyNotFound           = "ssh_key_not_found"
	CodeKeysRefused           = broker.AllocationKeysRefused
	CodeImageNotInstalled     = broker.AllocationImageNotInstalled
	CodeBeginOperation        = broker.AllocationBeginOperation
	CodeNodeNotReady          = "node_not_ready"
	CodeProvisioningCancelled = "provisioning_cancelled"
	CodeEndOperation          = broker.AllocationEndOperation
	CodeCleaningFailed        = "cleaning_failed"
	CodeReleaseCancelled      = "release_cancelled"
)

// CodeOperationLate is the failure of an operation that has not ended in time.
const CodeOperationLate = "operation_late"

// CodeLoginUnproven is the failure of a node that proves a login at no address, or by no key.
const CodeLoginUnproven = "login_unproven"
