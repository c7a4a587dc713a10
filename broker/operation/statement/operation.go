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
	// AllocationIDs are the members of a group, also those that were released before their nodes were asked for anything.
	AllocationIDs []string `json:"allocation_ids,omitempty"`
	Attempt       int      `json:"attempt"` // of the operation, from 1: each attempt has its own statement
	// NodeIDs are the nodes that the attempt was for.
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

type statement[P any] struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     P         `json:"predicate"`
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
	o, err := settle(o)
	if err != nil {
		return nil, err
	}
	payload, err := o.encode()
	if err != nil {
		return nil, err
	}
	return pki.SignStatement(payload, signer)
}

// settle completes an operation: what is not proven is left out.
func settle(o Operation) (Operation, error) {
	o = tidyOperation(o)
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
		return o, err
	}
	o.Steps = steps
	if of := StatusOf(o.NodeIDs, o.Tasks); better(o.Status, of) {
		o.Status = of
	}
	return o, o.check()
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

func (o Operation) encode() ([]byte, error) {
	return encode(Predicate, "operation/"+o.OperationID+" "+o.Operation, o.DefinitionDigest, o)
}

// encode writes the one form that open takes. The subject is named and has the digest sha256:….
func encode[P any](kind, name, of string, predicate P) ([]byte, error) {
	sum := ""
	if len(of) == len("sha256:")+64 {
		sum = of[len("sha256:"):]
	}
	payload, err := taskcatalog.Encode(statement[P]{
		Type: statementType, PredicateType: kind, Predicate: predicate, Subject: []subject{{Name: name, Digest: digest{sum}}},
	})
	if err != nil {
		return nil, refuse(pki.CodeMalformed, "%v", err)
	}
	return payload, nil
}

// open reads an authentic payload into a report and refuses any form but that of encode.
func (r *Report) open(payload []byte) error {
	var head struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return refuse(pki.CodeMalformed, "the signed bytes are no statement")
	}
	var again []byte
	var err error
	switch {
	case head.Type == statementType && head.PredicateType == Predicate:
		var s statement[Operation]
		if err := taskcatalog.DecodeStrict(payload, &s); err != nil {
			return refuse(pki.CodeMalformed, "%v", err)
		}
		r.Operation = tidyOperation(s.Predicate)
		again, err = r.Operation.encode()
	case head.Type == statementType && head.PredicateType == PredicateReceipt:
		var s statement[Receipt]
		if err := taskcatalog.DecodeStrict(payload, &s); err != nil {
			return refuse(pki.CodeMalformed, "%v", err)
		}
		receipt := tidyReceipt(s.Predicate)
		r.Receipt = &receipt
		again, err = receipt.encode()
	default:
		return refuse(CodeWrongStatement, "the file is a statement of another kind, %q (hostler certificate verify reads certificates)",
			taskcatalog.Clean(head.PredicateType, 200))
	}
	if err == nil && !bytes.Equal(again, payload) {
		err = refuse(pki.CodeNotCanonical, "the signed bytes are not in Hostler's canonical form")
	}
	return err
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	proofType = reflect.TypeFor[Proof]()
)

// tidyOperation brings a statement into its canonical form, without a nil list.
func tidyOperation(o Operation) Operation {
	o.NodeIDs, o.Tasks, o.Steps = append([]string{}, o.NodeIDs...), append([]Task{}, o.Tasks...), append([]Step{}, o.Steps...)
	tidy(&o)
	return o
}

// tidy makes text clean and bounded, and times UTC with microseconds. What a node has signed stays as it is.
func tidy[P any](p *P) { tidyValue(reflect.ValueOf(p).Elem()) }

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
