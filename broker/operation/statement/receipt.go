package statement

import (
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// PredicateReceipt is the kind of receipts.
const PredicateReceipt = "https://hostler.dev/operation-receipt/v1"

// Receipt is the tenant's version of a statement: what an attempt of an operation did to the allocation. It
// names no node, site, task, profile, person or message, only codes. A place counts the nodes from 1. A tenant
// in doubt asks the operator for the statement, which the receipt names by digest.
type Receipt struct {
	StatementDigest  string `json:"statement_digest"` // sha256:… of the file
	OperationID      string `json:"operation_id"`
	Operation        string `json:"operation"` // model.artifact.stage@v1
	DefinitionDigest string `json:"definition_digest"`
	InputsDigest     string `json:"inputs_digest"`
	ProjectID        string `json:"project_id"`
	AllocationID     string `json:"allocation_id"` // empty: the target is a group
	// AllocationIDs are the members of a group, also those that were released before their nodes were asked for anything.
	AllocationIDs []string `json:"allocation_ids,omitempty"`
	Attempt       int      `json:"attempt"` // of the operation, from 1
	Nodes         int      `json:"nodes"`   // how many the operation was for
	// Proven counts the nodes whose last task has evidence that holds.
	Proven int    `json:"proven"`
	Status string `json:"status"` // the statement's
	Code   string `json:"code,omitempty"`
	// Steps are those of the plan, as the nodes signed them.
	Steps []ReceiptStep `json:"steps"`
	// StepsOmitted counts the rows for which there was no room.
	StepsOmitted int       `json:"steps_omitted,omitzero"`
	RequestedAt  time.Time `json:"requested_at"`
	FinishedAt   time.Time `json:"finished_at"`
	IssuedAt     time.Time `json:"issued_at"`
}

// ReceiptStep is one attempt of one step on one node.
type ReceiptStep struct {
	Place         int                    `json:"place"` // of the node, from 1
	ID            string                 `json:"id"`
	StepKind      string                 `json:"step_kind"`
	AttemptNumber int                    `json:"attempt_number"`
	Status        taskcatalog.StepStatus `json:"status"`
	ErrorCode     string                 `json:"error_code,omitempty"`
	Earlier       bool                   `json:"earlier,omitempty"` // a former attempt of the operation completed the step
	Digest        string                 `json:"digest,omitempty"`  // of the content that the step brought, verified or wrote
	Bytes         int64                  `json:"bytes,omitempty"`
}

// mostReceiptSteps bounds the rows of a receipt, which is then smaller than pki.MaxStatement.
const mostReceiptSteps = 20_000

var (
	codeForm     = lazyregexp.New(`^[a-z][a-z0-9_]{0,63}$`)
	stepStatuses = []taskcatalog.StepStatus{
		taskcatalog.StepSucceeded, taskcatalog.StepFailed, taskcatalog.StepSkipped, taskcatalog.StepCanceled,
	}
)

// IssueReceipt signs the receipt of a statement that Issue made of the same operation. The plan says which
// steps there are and of which kind: a node's own words for them are left out.
func IssueReceipt(o Operation, file []byte, plan taskcatalog.OperationPlan, signer pki.Signer) ([]byte, error) {
	o, err := settle(o)
	if err != nil {
		return nil, err
	}
	r := tidyReceipt(receiptOf(o, file, plan))
	if err := r.check(); err != nil {
		return nil, err
	}
	payload, err := r.encode()
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

func receiptOf(o Operation, file []byte, plan taskcatalog.OperationPlan) Receipt {
	r := Receipt{
		StatementDigest: pki.Digest(file), OperationID: o.OperationID, Operation: o.Operation, DefinitionDigest: o.DefinitionDigest,
		InputsDigest: o.InputsDigest, ProjectID: o.ProjectID, AllocationID: o.AllocationID,
		AllocationIDs: o.AllocationIDs, Attempt: o.Attempt, Nodes: len(o.NodeIDs),
		Status: o.Status, Code: codeOrOther(o.Code), RequestedAt: o.RequestedAt, FinishedAt: o.FinishedAt, IssuedAt: o.IssuedAt,
	}
	for _, node := range o.NodeIDs {
		proven := false
		for _, t := range o.Tasks {
			if t.NodeID == node {
				proven = t.Proof != nil
			}
		}
		if proven {
			r.Proven++
		}
	}
	for _, s := range o.Steps {
		i := slices.IndexFunc(plan.Steps, func(p taskcatalog.PlannedStep) bool { return p.ID == s.ID })
		switch {
		case i < 0 || !slices.Contains(stepStatuses, s.Status):
			continue // not a step of the plan, or a status of a later agent
		case len(r.Steps) == mostReceiptSteps:
			r.StepsOmitted++
			continue
		}
		digest := s.Digest
		if !sha256Form.MatchString(digest) {
			digest = ""
		}
		r.Steps = append(r.Steps, ReceiptStep{
			Place: slices.Index(o.NodeIDs, s.NodeID) + 1, ID: s.ID, StepKind: plan.Steps[i].Kind, AttemptNumber: max(s.AttemptNumber, 0),
			Status: s.Status, ErrorCode: codeOrOther(string(s.ErrorCode)), Earlier: s.Earlier, Digest: digest, Bytes: max(s.Bytes, 0),
		})
	}
	return r
}

// codeOrOther keeps words that are no code out of a receipt.
func codeOrOther(code string) string {
	if code == "" || codeForm.MatchString(code) {
		return code
	}
	return "other"
}

// tidyReceipt brings a receipt into its canonical form.
func tidyReceipt(r Receipt) Receipt {
	r.Steps = append([]ReceiptStep{}, r.Steps...)
	tidy(&r)
	return r
}

func (r Receipt) encode() ([]byte, error) {
	return encode(PredicateReceipt, "operation-receipt/"+r.OperationID+" "+r.Operation, r.StatementDigest, r)
}

// check refuses a receipt that lacks something, or whose status the rest does not bear out.
func (r Receipt) check() error {
	switch {
	case r.OperationID == "" || r.Operation == "" || r.ProjectID == "" || r.Nodes < 1,
		(r.AllocationID == "") == (len(r.AllocationIDs) == 0):
		return refuse(CodeIncomplete, "it names no operation, project or allocation")
	case !sha256Form.MatchString(r.StatementDigest), !sha256Form.MatchString(r.DefinitionDigest),
		!sha256Form.MatchString(r.InputsDigest):
		return refuse(CodeIncomplete, "the digest of its statement, of its definition or of its inputs is missing")
	case r.Attempt < 1 || !slices.Contains(statuses, r.Status):
		return refuse(CodeIncomplete, "its attempt or its status is missing")
	case r.RequestedAt.IsZero() || r.FinishedAt.Before(r.RequestedAt) || r.IssuedAt.Before(r.FinishedAt.Add(-taskcatalog.ClockSkew)):
		return refuse(CodeIncomplete, "its times are missing, or not in their order")
	case r.Proven < 0 || r.Proven > r.Nodes || r.Status == Succeeded && r.Proven < r.Nodes:
		return refuse(CodeStatusUnfounded, "it says %s, and %d of %d nodes have proven it", r.Status, r.Proven, r.Nodes)
	}
	for _, s := range r.Steps {
		if s.ID == "" || s.StepKind == "" || s.Place < 1 || s.Place > r.Nodes || !slices.Contains(stepStatuses, s.Status) {
			return refuse(CodeIncomplete, "a step has no id, kind or status, or is on a node that the operation was not for")
		}
	}
	return nil
}
