package records

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
)

// Signer signs statements.
type Signer interface {
	StatementSigner(ctx context.Context) (pki.Signer, error)
}

// Statement implements operation.Records. Nothing is stored: the caller stores the statement with the end.
func (r *Records) Statement(ctx context.Context, o broker.Operation, end broker.EndOperation) (file, receipt []byte, err error) {
	return r.state(ctx, o, end, r.Tasks)
}

// state signs a statement about the tasks of the present attempt, which tasksOf lists for a node.
func (r *Records) state(ctx context.Context, o broker.Operation, end broker.EndOperation,
	tasksOf func(ctx context.Context, nodeID, runID string) ([]broker.Task, error),
) (file, receipt []byte, err error) {
	now := r.DB.Now()
	nodes := slices.DeleteFunc(slices.Clone(o.NodeIDs), func(id string) bool { return slices.Contains(end.Skipped, id) })
	if len(nodes) == 0 { // an attempt that began nowhere
		nodes = o.NodeIDs
	}
	s := statement.Operation{
		OperationID: o.ID, Operation: o.Operation, DefinitionDigest: o.DefinitionDigest, InputsDigest: o.Plan.InputsDigest,
		ProjectID: o.ProjectID, AllocationID: o.AllocationID, Attempt: o.Attempt, NodeIDs: nodes,
		Status: string(end.To), Code: end.Code, RequestedAt: o.RequestedAt, FinishedAt: now, IssuedAt: now,
	}
	for _, m := range end.Members {
		if m.AllocationID == "" { // a node, which node_ids has
			continue
		}
		s.AllocationIDs = append(s.AllocationIDs, m.AllocationID)
	}
	for _, node := range nodes {
		all, err := tasksOf(ctx, node, o.RunID)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range all {
			t, err := r.stated(ctx, k)
			if err != nil {
				return nil, nil, err
			}
			s.Fit(t)
		}
	}
	signer, err := r.Signer.StatementSigner(ctx)
	if err != nil {
		return nil, nil, err
	}
	if file, err = statement.Issue(s, signer); err != nil || o.ProjectID == "" {
		return file, nil, err
	}
	receipt, err = statement.IssueReceipt(s, file, o.Plan, signer)
	return file, receipt, err
}

// stated is a task with its proof, as a statement shows it.
func (r *Records) stated(ctx context.Context, k broker.Task) (statement.Task, error) {
	t := statement.Task{ID: k.ID, NodeID: k.NodeID, Digest: k.EnvelopeDigest, Outcome: k.Outcome, Code: k.Code}
	if len(k.Evidence) == 0 {
		return t, nil
	}
	signed, err := taskqueue.SignedBy(ctx, r.DB, k)
	if err != nil {
		return t, err
	}
	if signed == nil {
		t.Unproven = statement.CodeEvidenceWrongKey
		return t, nil
	}
	t.Proof = &statement.Proof{Certificate: signed, Evidence: string(k.Evidence), Result: string(k.Result)}
	return t, nil
}
