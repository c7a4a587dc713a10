package statement

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Predicate is the kind of these statements. The statement key signs certificates and audit heads, too:
// the kind is covered by the signature.
const Predicate = "https://hostler.dev/operation/v1"

const statementType = "https://in-toto.io/Statement/v1"

// The statuses of an operation that has ended.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Canceled  = "canceled"
)

// Operation is what an operation did to its nodes.
type Operation struct {
	OperationID string `json:"operation_id"`
	Operation   string `json:"operation"` // model.artifact.stage@v1
	// DefinitionDigest and InputsDigest are sha256:… of the canonical JSON of both.
	DefinitionDigest string `json:"definition_digest"`
	InputsDigest     string `json:"inputs_digest"`
	ProjectID        string `json:"project_id,omitempty"` // empty: no tenant's operation
	AllocationID     string `json:"allocation_id,omitempty"`
	Attempt          int    `json:"attempt"` // of the operation, from 1: each attempt has its own statement
	// NodeIDs are the nodes that the operation was for.
	NodeIDs []string `json:"node_ids"`
	// Status is never better than StatusOf(NodeIDs, Tasks), and Code says why the broker counts the
	// attempt as failed or canceled.
	Status string `json:"status"`
	Code   string `json:"code,omitempty"`
	Tasks  []Task `json:"tasks"` // of the attempt
	// Steps are the rows of all proven results, in their order.
	Steps       []Step    `json:"steps"`
	RequestedAt time.Time `json:"requested_at"`
	FinishedAt  time.Time `json:"finished_at"`
	IssuedAt    time.Time `json:"issued_at"`

	results, evidence int // bytes that Fit has taken
}

// Task is a task of the operation.
type Task struct {
	ID      string              `json:"id"`
	NodeID  string              `json:"node_id"`
	Digest  string              `json:"digest"` // sha256:… of the task's envelope, which has the plan
	Outcome taskcatalog.Outcome `json:"outcome,omitempty"`
	Code    taskcatalog.Code    `json:"code,omitempty"`
	// Proof is what the node signed. Nil: the node reported nothing, or Unproven.
	Proof *Proof `json:"proof,omitempty"`
	// Unproven is the code by which the broker refused the proof.
	Unproven taskcatalog.Code `json:"unproven,omitempty"`
}

// Proof is the evidence of a task with what is needed to check it.
type Proof struct {
	Evidence    string `json:"evidence"` // envelope by the node's key
	Result      string `json:"result,omitempty"`
	Certificate []byte `json:"certificate"` // of the node, DER
	// ResultOmitted: the result was too long for the statement. The evidence proves the outcome, and names
	// the result by digest; the steps of the task are not listed.
	ResultOmitted bool `json:"result_omitted,omitzero"`
}

// Bounds of what a statement holds of its tasks, in bytes. A statement has a result twice, escaped and in
// base64, and must be smaller than pki.MaxStatement.
const (
	mostResults  = 3 << 20
	mostEvidence = 4 << 20
)

// Fit adds a task to a statement, with as much of its proof as there is room for.
func (o *Operation) Fit(t Task) {
	if p := t.Proof; p != nil {
		proof := *p
		t.Proof = &proof
		if o.results += len(proof.Result); o.results > mostResults {
			o.results -= len(proof.Result)
			proof.Result, proof.ResultOmitted = "", proof.Result != ""
		}
		if size := len(proof.Evidence) + len(proof.Certificate); o.evidence+size > mostEvidence {
			o.results -= len(proof.Result)
			t.Proof, t.Unproven = nil, pki.CodeTooLarge
		} else {
			o.evidence += size
		}
	}
	o.Tasks = append(o.Tasks, t)
}

// Step is one attempt of one step in a task.
type Step struct {
	TaskID string `json:"task_id"`
	NodeID string `json:"node_id"`
	taskcatalog.OperationStep
}

type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Operation `json:"predicate"`
}

type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

type digest struct {
	SHA256 string `json:"sha256"`
}

// Issue signs what an attempt of an operation did. Steps are filled in from the proofs; a proof that does
// not hold is left out, with its code. Status is the worse of the given one and StatusOf.
func Issue(o Operation, signer pki.Signer) ([]byte, error) {
	o = tidy(o)
	for i, t := range o.Tasks {
		if t.Proof == nil {
			continue
		}
		if _, err := o.proof(t); err != nil {
			o.Tasks[i].Proof, o.Tasks[i].Unproven = nil, taskcatalog.CodeOf(err, CodeIncomplete)
		}
	}
	steps, err := o.prove()
	if err != nil {
		return nil, err
	}
	o.Steps = steps
	if of := StatusOf(o.NodeIDs, o.Tasks); better(o.Status, of) {
		o.Status = of
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	payload, err := encode(o)
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

// statuses are ordered from the worst to the best.
var statuses = []string{Failed, Canceled, Succeeded}

// better reports whether one status is better than another.
func better(status, than string) bool {
	return slices.Index(statuses, status) > slices.Index(statuses, than)
}

// StatusOf returns the status of an operation for these nodes with these tasks: the worst of what the
// last task on each node gives. Only a proven task makes a success.
func StatusOf(nodes []string, tasks []Task) string {
	status := Succeeded
	for _, node := range nodes {
		switch statusOn(node, tasks) {
		case Failed:
			return Failed
		case Canceled:
			status = Canceled
		}
	}
	if len(nodes) == 0 {
		return Canceled
	}
	return status
}

func statusOn(node string, tasks []Task) string {
	status := Canceled // nothing was sent to the node
	for _, t := range tasks {
		switch {
		case t.NodeID != node:
		case t.Proof != nil && t.Outcome == taskcatalog.OutcomeSucceeded:
			status = Succeeded
		case t.Outcome == taskcatalog.OutcomeCanceled, t.Outcome == "" && t.Code == taskcatalog.CodeCanceled:
			status = Canceled // the latter before it reached the node
		default:
			status = Failed
		}
	}
	return status
}

// encode writes the one form that open takes.
func encode(o Operation) ([]byte, error) {
	sum := ""
	if len(o.DefinitionDigest) == len("sha256:")+64 {
		sum = o.DefinitionDigest[len("sha256:"):]
	}
	payload, err := taskcatalog.Encode(statement{
		Type: statementType, PredicateType: Predicate, Predicate: o,
		Subject: []subject{{Name: "operation/" + o.OperationID + " " + o.Operation, Digest: digest{sum}}},
	})
	if err != nil {
		return nil, refuse(pki.CodeMalformed, "%v", err)
	}
	return payload, nil
}

// open reads an authentic payload and refuses any form but that of encode.
func open(payload []byte) (Operation, error) {
	var head struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return Operation{}, refuse(pki.CodeMalformed, "the signed bytes are no statement")
	}
	if head.Type != statementType || head.PredicateType != Predicate {
		return Operation{}, refuse(CodeWrongStatement, "the file is a statement of another kind, %q (hostler certificate verify reads certificates)",
			taskcatalog.Clean(head.PredicateType, 200))
	}
	var s statement
	if err := taskcatalog.DecodeStrict(payload, &s); err != nil {
		return Operation{}, refuse(pki.CodeMalformed, "%v", err)
	}
	o := tidy(s.Predicate)
	again, err := encode(o)
	if err != nil {
		return Operation{}, err
	}
	if !bytes.Equal(again, payload) {
		return Operation{}, refuse(pki.CodeNotCanonical, "the signed bytes are not in Hostler's canonical form")
	}
	return o, nil
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	proofType = reflect.TypeFor[Proof]()
)

// tidy brings a statement into its canonical form: text clean and bounded, times in UTC with
// microseconds, no nil list. What a node has signed stays as it is.
func tidy(o Operation) Operation {
	o.NodeIDs, o.Tasks, o.Steps = append([]string{}, o.NodeIDs...), append([]Task{}, o.Tasks...), append([]Step{}, o.Steps...)
	tidyValue(reflect.ValueOf(&o).Elem())
	return o
}

func tidyValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			tidyValue(v.Elem())
		}
	case reflect.Struct:
		switch v.Type() {
		case proofType:
		case timeType:
			v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC().Truncate(time.Microsecond)))
		default:
			for i := range v.NumField() {
				tidyValue(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			tidyValue(v.Index(i))
		}
	case reflect.String:
		v.SetString(taskcatalog.Clean(v.String(), taskcatalog.MaxText))
	}
}
