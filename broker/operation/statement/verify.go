package statement

import (
	"crypto/x509"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Codes of refusals, beside those of envelopes and trust bundles: too_large, malformed, not_canonical,
// wrong_payload_type, unknown_key, bad_signature, key_not_in_force.
const (
	CodeWrongStatement      taskcatalog.Code = "wrong_statement"
	CodeIssuedLater         taskcatalog.Code = "issued_in_the_future"
	CodeIncomplete          taskcatalog.Code = "statement_incomplete"
	CodeEvidenceWrongNode   taskcatalog.Code = "evidence_wrong_node"
	CodeEvidenceWrongKey    taskcatalog.Code = "evidence_wrong_key"
	CodeEvidenceWrongTask   taskcatalog.Code = "evidence_wrong_task"
	CodeEvidenceWrongResult taskcatalog.Code = "evidence_wrong_result"
	CodeEvidenceStale       taskcatalog.Code = "evidence_stale"
	CodeEvidenceLate        taskcatalog.Code = "evidence_late"
	CodeStepsContradicted   taskcatalog.Code = "steps_contradicted" // not the steps that the node signed
	CodeStatusUnfounded     taskcatalog.Code = "status_unfounded"   // not the status that the tasks give
)

// Report is an authentic statement, or an authentic receipt.
type Report struct {
	Digest     string    `json:"digest"` // sha256:… of the file
	KeyID      string    `json:"key_id"` // of the statement key
	VerifiedAt time.Time `json:"verified_at"`
	Operation  Operation `json:"operation,omitzero"` // of a statement
	Receipt    *Receipt  `json:"receipt,omitempty"`  // nil: the file is a statement
}

// Status is how the operation ended.
func (r *Report) Status() string {
	if r.Receipt != nil {
		return r.Receipt.Status
	}
	return r.Operation.Status
}

// IssuedAt is when the file was signed.
func (r *Report) IssuedAt() time.Time {
	if r.Receipt != nil {
		return r.Receipt.IssuedAt
	}
	return r.Operation.IssuedAt
}

// Verify checks that a statement key of trust signed the file, in canonical form, with proofs that hold.
// An error means that nothing in the file can be believed; its code says why. An authentic statement may
// be of an operation that failed. A receipt has no proofs: it is the broker's word, and names the statement.
func Verify(file []byte, trust *pki.TrustBundle, now time.Time) (*Report, error) {
	env, err := pki.ParseStatement(file)
	if err != nil {
		return nil, err
	}
	r := &Report{Digest: pki.Digest(file), VerifiedAt: now.UTC()}
	if _, r.KeyID, err = trust.VerifyStatement(env, func(payload []byte) (time.Time, error) {
		err = r.open(payload)
		return r.IssuedAt(), err
	}); err != nil {
		return nil, err
	}
	if at := r.IssuedAt(); at.After(now.Add(taskcatalog.ClockSkew)) {
		return nil, refuse(CodeIssuedLater, "it was issued at %s, and this machine's clock says %s (compare the clocks)", stamp(at), stamp(now))
	}
	if r.Receipt != nil {
		if err := r.Receipt.check(); err != nil {
			return nil, err
		}
		return r, nil
	}
	o := r.Operation
	if err := o.check(); err != nil {
		return nil, err
	}
	steps, err := o.prove()
	switch {
	case err != nil:
		return nil, err
	case !reflect.DeepEqual(steps, o.Steps):
		return nil, refuse(CodeStepsContradicted, "its steps are not those that the node signed")
	case better(o.Status, StatusOf(o.NodeIDs, o.Tasks)):
		return nil, refuse(CodeStatusUnfounded, "it says %s, and its tasks give %s", o.Status, StatusOf(o.NodeIDs, o.Tasks))
	}
	return r, nil
}

var sha256Form = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// check refuses a statement that lacks something.
func (o Operation) check() error {
	switch {
	case o.OperationID == "" || o.Operation == "" || len(o.NodeIDs) == 0:
		return refuse(CodeIncomplete, "it names no operation or no node")
	case !sha256Form.MatchString(o.DefinitionDigest) || !sha256Form.MatchString(o.InputsDigest):
		return refuse(CodeIncomplete, "the digest of its definition or of its inputs is missing")
	case o.Attempt < 1 || !slices.Contains(statuses, o.Status):
		return refuse(CodeIncomplete, "its attempt or its status is missing")
	case o.RequestedAt.IsZero() || o.FinishedAt.Before(o.RequestedAt) || o.IssuedAt.Before(o.FinishedAt.Add(-taskcatalog.ClockSkew)):
		return refuse(CodeIncomplete, "its times are missing, or not in their order")
	}
	seen := map[string]bool{}
	for _, t := range o.Tasks {
		if t.ID == "" || seen[t.ID] || !sha256Form.MatchString(t.Digest) || !slices.Contains(o.NodeIDs, t.NodeID) {
			return refuse(CodeIncomplete, "a task has no id or digest, is there twice, or is on a node that the operation was not for")
		}
		seen[t.ID] = true
	}
	return nil
}

// prove checks the proof of each task, and returns the steps of all results.
func (o Operation) prove() ([]Step, error) {
	steps := []Step{}
	for _, t := range o.Tasks {
		if t.Proof == nil {
			continue
		}
		rows, err := o.proof(t)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			steps = append(steps, Step{t.ID, t.NodeID, row})
		}
	}
	tidy(&steps)
	return steps, nil
}

// proof checks the proof of one task against the node, the task, the result, the operation and its time.
func (o Operation) proof(t Task) ([]taskcatalog.OperationStep, error) {
	wrong := func(code taskcatalog.Code, format string, args ...any) ([]taskcatalog.OperationStep, error) {
		return nil, refuse(code, "the evidence of task %s: %s", t.ID, taskcatalog.Clean(fmt.Sprintf(format, args...), 500))
	}
	cert, err := x509.ParseCertificate(t.Proof.Certificate)
	if err != nil {
		return wrong(CodeEvidenceWrongKey, "the accompanying node certificate cannot be read")
	}
	id, err := pki.NodeIdentityOf(cert)
	switch {
	case err != nil:
		return wrong(CodeEvidenceWrongKey, "%v", err)
	case id.NodeID != t.NodeID:
		return wrong(CodeEvidenceWrongNode, "its key is of node %s", id.NodeID)
	}
	ev, err := pki.VerifyEvidence([]byte(t.Proof.Evidence), cert.PublicKey)
	if err != nil {
		return wrong(CodeEvidenceWrongKey, "the node's key does not verify it: %v", err)
	}
	resultDigest := ""
	if t.Proof.Result != "" {
		resultDigest = pki.Digest([]byte(t.Proof.Result))
	}
	switch {
	case ev.NodeID != t.NodeID || ev.NodeEpoch != id.Epoch:
		return wrong(CodeEvidenceWrongNode, "it names node %s, enrolment %d", ev.NodeID, ev.NodeEpoch)
	case ev.TaskID != t.ID || ev.TaskDigest != t.Digest || ev.Outcome != t.Outcome || ev.Code != t.Code:
		return wrong(CodeEvidenceWrongTask, "it is of task %s, which ended as %s %s", ev.TaskID, ev.Outcome, ev.Code)
	case t.Proof.ResultOmitted && (t.Proof.Result != "" || ev.ResultDigest == ""):
		return wrong(CodeEvidenceWrongResult, "it omits a result that is there, or that never was")
	case !t.Proof.ResultOmitted && ev.ResultDigest != resultDigest:
		return wrong(CodeEvidenceWrongResult, "the accompanying result is not the one that the node signed")
	case ev.StartedAt.Before(o.RequestedAt.Add(-taskcatalog.ClockSkew)):
		return wrong(CodeEvidenceStale, "it is from %s, and the operation was requested at %s", stamp(ev.StartedAt), stamp(o.RequestedAt))
	case ev.FinishedAt.After(o.FinishedAt.Add(taskcatalog.ClockSkew)) || ev.FinishedAt.Before(ev.StartedAt):
		return wrong(CodeEvidenceLate, "it is from %s, and the operation ended at %s", stamp(ev.FinishedAt), stamp(o.FinishedAt))
	case t.Proof.ResultOmitted:
		return nil, nil
	case t.Proof.Result == "" && t.Outcome == taskcatalog.OutcomeSucceeded:
		return wrong(CodeEvidenceWrongResult, "it is of a success without a result")
	case t.Proof.Result == "":
		return nil, nil
	}
	switch result, err := taskcatalog.ReadOperationResult([]byte(t.Proof.Result)); {
	case err != nil:
		return wrong(CodeEvidenceWrongResult, "its result cannot be read")
	case result.OperationID != o.OperationID || result.Operation != o.Operation ||
		result.DefinitionDigest != o.DefinitionDigest || result.InputsDigest != o.InputsDigest:
		return wrong(CodeEvidenceWrongResult, "its result is of operation %s (%s), or of another definition or other inputs",
			result.OperationID, result.Operation)
	default:
		return result.Steps, nil
	}
}

func refuse(code taskcatalog.Code, format string, args ...any) error {
	return taskcatalog.Errorf(code, "cannot accept the statement: "+format, args...)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
