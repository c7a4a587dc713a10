package broker

import (
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// OperationStatus is how far an operation is.
type OperationStatus string

// The statuses. A retry leads from OperationFailed and OperationCanceled back to OperationQueued.
const (
	OperationQueued    OperationStatus = "queued"
	OperationRunning   OperationStatus = "running" // its task is on the nodes
	OperationSucceeded OperationStatus = "succeeded"
	OperationFailed    OperationStatus = "failed"
	OperationCanceled  OperationStatus = "canceled"
)

// OperationStatuses lists all statuses.
var OperationStatuses = []OperationStatus{OperationQueued, OperationRunning, OperationSucceeded, OperationFailed, OperationCanceled}

// Ended reports whether only a retry leaves the status.
func (s OperationStatus) Ended() bool {
	return s == OperationSucceeded || s == OperationFailed || s == OperationCanceled
}

// OperationOwner names who makes a transition of an operation.
type OperationOwner string

// The owners.
const (
	OperationWorker    OperationOwner = "worker"    // the run that carries the operation out
	OperationRequester OperationOwner = "requester" // who asks for the operation to be tried again
)

// OperationOwners lists all owners.
var OperationOwners = []OperationOwner{OperationWorker, OperationRequester}

type operationEdge struct{ from, to OperationStatus }

// operationTransitions is the whole table: each pair of statuses with the owner of the transition.
// Every pair outside the table is refused.
var operationTransitions = map[operationEdge]OperationOwner{
	{OperationQueued, OperationRunning}:    OperationWorker,
	{OperationQueued, OperationFailed}:     OperationWorker,
	{OperationQueued, OperationCanceled}:   OperationWorker,
	{OperationRunning, OperationSucceeded}: OperationWorker,
	{OperationRunning, OperationFailed}:    OperationWorker,
	{OperationRunning, OperationCanceled}:  OperationWorker,
	{OperationFailed, OperationQueued}:     OperationRequester,
	{OperationCanceled, OperationQueued}:   OperationRequester,
}

// MostOperationAttempts bounds the tries of an operation.
const MostOperationAttempts = 100

// TransitionOperation says whether the owner may move an operation from its status to another. It is
// the only user of the table. The Code of a failure must be set before. Codes: transition_refused,
// failure_code_missing, operation_attempts.
func TransitionOperation(o Operation, to OperationStatus, by OperationOwner) error {
	owner, ok := operationTransitions[operationEdge{o.Status, to}]
	switch {
	case !ok:
		return Errorf(Refused, "transition_refused", "cannot move operation %s from %s to %s: there is no such transition", o.ID, o.Status, to)
	case owner != by:
		return Errorf(Refused, "transition_refused", "cannot move operation %s from %s to %s: %s does not own that transition",
			o.ID, o.Status, to, by)
	case to == OperationFailed && o.Code == "":
		return Errorf(Refused, "failure_code_missing", "cannot move operation %s to %s: the code of the failure is missing", o.ID, to)
	case to == OperationQueued && o.Attempt >= MostOperationAttempts:
		return Errorf(Refused, "operation_attempts", "cannot retry operation %s: it was tried %d times (begin a new operation)", o.ID, o.Attempt)
	}
	return nil
}

// OperationTarget is the kind of what an operation works on.
type OperationTarget string

// The kinds of targets.
const (
	TargetNode       OperationTarget = "node"       // a node that no allocation holds
	TargetAllocation OperationTarget = "allocation" // all nodes of an active allocation
	TargetGroup      OperationTarget = "group"      // all nodes of several active allocations of a project, or nodes that no allocation holds
)

// OperationTrigger says what began an operation.
type OperationTrigger string

// The triggers.
const (
	TriggerAdmin  OperationTrigger = "admin"          // a person of the platform
	TriggerTenant OperationTrigger = "tenant_request" // a member of the project
	TriggerBegin  OperationTrigger = "allocation_provision"
	TriggerEnd    OperationTrigger = "allocation_release"
)

// OperationPrefix begins the ids of operations.
const OperationPrefix = "op-"

// Operation is one execution of a definition on its target.
type Operation struct {
	ID               string
	Operation        string // model.artifact.stage@v1
	DefinitionDigest string
	OrganisationID   string // empty: no tenant's
	ProjectID        string
	RequestedBy      string
	Reason           string
	Target           OperationTarget
	TargetID         string            // a group's: its selector
	AllocationID     string            // of an allocation's operation
	Members          []OperationMember // of a group; not in lists
	Site             string            // of the nodes
	NodeIDs          []string          // of the target when the operation was requested; a group's: member by member
	Safety           string            // what a node must be: idle, drained or forced
	Requires         map[string][]string
	Trigger          OperationTrigger
	IdempotencyKey   string
	CorrelationID    string
	TraceParent      TraceParent               // of the request, or of the allocation's begin; empty: an earlier release began it
	Plan             taskcatalog.OperationPlan // of the first attempt, with the signatures of the present one
	Batches          OperationBatches
	PassedOver       map[string]string // nodes of a selector on which it could not begin, with codes; only in the audit log
	MostRunning      int64             // on how many allocations at once its kind may work in its project; 0: any number; not stored

	Status  OperationStatus
	Attempt int    // counts the tries, from 1
	Batch   int    // of the present attempt, from 1
	RunID   string // of the present attempt
	// CanceledBy asked for the end of the present attempt; empty: nobody did.
	CanceledBy, CancelReason string
	// Code says why the operation failed; its tenant may see it. Message is for the platform alone.
	Code, Message string

	RequestedAt, StartedAt, EndedAt time.Time // StartedAt and EndedAt are of the present attempt
}

// PlanOf returns the plan of the present attempt for the nodes of a part.
func (o Operation) PlanOf(part OperationPart) taskcatalog.OperationPlan {
	p := o.Plan
	p.Attempt, p.AllocationID = o.Attempt, part.AllocationID
	return p
}

// Failure describes to the tenant a failure, or an end by the platform, with the next action. Empty: neither.
func (o Operation) Failure() string {
	switch {
	case o.Status == OperationCanceled && o.Code == OperationTargetGone:
		return "the platform ended the operation, because its allocation was released (begin a new one on an active allocation)"
	case o.Status != OperationFailed:
		return ""
	case o.Code == OperationTargetGone:
		return "the target is not what it was when the operation was requested (look at the allocation, and begin a new operation)"
	case slices.Contains(OperationDenials(), o.Code):
		return "a policy does not permit it now, and the nodes that had not begun were asked for nothing (see hostler operation policy explain; retry it when the policy permits it)"
	case o.Code == OperationBatchStopped:
		return "too many nodes failed, and the batches after them did not begin (its steps show where; retry it to go on from there)"
	case o.Code == AgentOutdated:
		return "the agent of a node is too old for the operation (ask the platform's operators to update it, then retry)"
	case slices.Contains([]string{"agent_silent", "outcome_unknown"}, o.Code):
		return "the end of the operation on a node is not known (retry it; if that fails too, tell the platform's operators the id and the code)"
	}
	return "the operation did not end well on each node (its steps show where; retry it to go on from there)"
}

// Codes of operations that failed before their task did.
const (
	OperationTargetGone = "operation_target_gone" // the target is not the requester's any more, or not the same
	OperationIncomplete = "result_incomplete"     // a task ended well, and lacks the rows of its steps
	AgentOutdated       = "agent_outdated"        // the agent of a node does not understand the plan
)

// OperationTask is the type of the tasks that carry plans.
const OperationTask = "operation.run"

// OperationOfRun is the id of the operation that a run carries out.
func OperationOfRun(run string) string { return run[:max(strings.LastIndexByte(run, '-'), 0)] }

// OperationNotFound is the answer about an operation that does not exist, or that the caller may not
// know.
func OperationNotFound(id string) *Error {
	return Errorf(NotFound, "operation_not_found", "there is no operation %q (see hostler operation list)", cleanText(id))
}

// OperationStep is a row about one attempt of a step on one node.
type OperationStep struct {
	OperationID string
	Task        int // the attempt of the operation
	Place       int // of the node among the operation's nodes, from 0
	Seq         int // of the row in its task, from 0
	taskcatalog.OperationStep
}

// RequestOperation is an effect of a start: the operation is stored, and the start is refused where its
// target is not the requester's.
type RequestOperation struct{ Operation Operation }

// RetryOperation is an effect of a start: the operation is queued again, for a new run.
type RetryOperation struct {
	ID, RunID, By, Reason string
	Operation             string // as of Operation; for the metrics
	MostRunning           int64  // as of Operation
	// Signatures take the place of those of the plan; nil: those still hold.
	Signatures []taskcatalog.ArtifactSignature
	// Lost are the members of a group that its project does not hold any more.
	Lost []string
}

// StartOperation is an effect of a run: its operation is running.
type StartOperation struct{ ID string }

// EndOperation is an effect of a run: its operation has ended, with the rows of its steps.
type EndOperation struct {
	ID            string
	Operation     string // as of Operation; for the metrics
	To            OperationStatus
	Code, Message string
	Members       []OperationMember // of a group
	Skipped       []string          // nodes of members that are not the project's any more, which were asked for nothing
	Steps         []OperationStep
	Statement     []byte // of the attempt, signed
	Receipt       []byte // the tenant's version of the statement; nil: the operation is no tenant's
}
