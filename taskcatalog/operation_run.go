package taskcatalog

import (
	"encoding/json"
	"time"
)

var operationRun = define[OperationPlan, OperationResult](Type{
	Name: "operation.run", Version: 1,
	Summary: "carry out the steps of an operation's plan, in their order, and go on after a restart of the agent or the machine",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 24 * time.Hour,
	ByBroker: "hostler operation run",
	Example: `{"operation_id":"op-7k2m4q6s","attempt":1,"operation":"runtime.readiness.verify@v1",` +
		`"definition_digest":"sha256:` + exampleDigest + `","inputs_digest":"sha256:` + exampleDigest + `",` +
		`"deadline_seconds":1800,"steps":[{"id":"runtime","kind":"gpu.runtime.check","timeout_seconds":120,"attempts":1,"rerun":true}]}`,
	limit: func(params any) time.Duration {
		return time.Duration(params.(*OperationPlan).DeadlineSeconds) * time.Second
	},
})

// exampleDigest is the digest of an empty content.
const exampleDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// OperationPlan is an operation with nothing left open but secrets and hardware: the params of the
// task operation.run. The broker makes the plan of a definition, its inputs and the policy.
type OperationPlan struct {
	OperationID string `json:"operation_id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Attempt counts the tasks of the operation, from 1. A retry is a new task with the next number.
	Attempt   int    `json:"attempt" jsonschema:"minimum=1,maximum=1000"`
	Operation string `json:"operation" jsonschema:"pattern=^[a-z][a-z0-9_.]*@v[1-9][0-9]{0\\,3}$,maxLength=70"` // gpu.host.bootstrap@v1
	// DefinitionDigest and InputsDigest are of the canonical JSON that the broker made the plan of.
	DefinitionDigest string `json:"definition_digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	InputsDigest     string `json:"inputs_digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	ProjectID        string `json:"project_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	AllocationID     string `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	DeadlineSeconds  int    `json:"deadline_seconds" jsonschema:"minimum=1,maximum=86400"` // of this task
	// Requires are the definition's: fact → permitted values; of GPUCount, the least number. The broker judges what the node reported;
	// the GPU steps judge what the machine has when they run.
	Requires map[string][]string `json:"requires,omitempty" jsonschema:"maxProperties=16"`
	// GPUs is how many the SKU of the nodes has; 0: not known. The GPU steps look whether all are there.
	GPUs      int            `json:"gpus,omitempty" jsonschema:"minimum=0,maximum=64"`
	Artifacts *PlanArtifacts `json:"artifacts,omitempty"` // nil: no step brings anything
	// Signatures are what the broker verified before it signed the plan. The node relies on the plan's
	// digests, and judges no signature of an artifact.
	Signatures []ArtifactSignature `json:"signatures,omitempty" jsonschema:"maxItems=64"`
	Steps      []PlannedStep       `json:"steps" jsonschema:"minItems=1,maxItems=64"`
}

// ArtifactSignature is a signature of an artifact that the broker has verified.
type ArtifactSignature struct {
	Source string `json:"source" jsonschema:"maxLength=1024"` // oci:registry.example/models/llama
	Digest string `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	// Place is the source for which the signer is set, and Trust the digest of whom the signer's record
	// named: a key, or an identity. TrustedRoot is the digest of its trusted root; empty: it had none.
	Place       string `json:"place" jsonschema:"maxLength=512"`
	Signer      string `json:"signer" jsonschema:"maxLength=63"`
	Trust       string `json:"trust" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	TrustedRoot string `json:"trusted_root,omitempty" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	Form        string `json:"form" jsonschema:"enum=tag,enum=referrer,enum=given"`
	// Issuer and Subject are of the certificate; empty: a key signed.
	Issuer   string     `json:"issuer,omitempty" jsonschema:"maxLength=1024"`
	Subject  string     `json:"subject,omitempty" jsonschema:"maxLength=1024"`
	SignedAt *time.Time `json:"signed_at,omitempty"` // as a log or a timestamp authority says; nil: nobody says
	JudgedAt time.Time  `json:"judged_at"`
}

// Forms of signatures: two in a registry, and one that is given with a file.
const (
	SignatureAtTag    = "tag"      // up to cosign 2
	SignatureReferrer = "referrer" // since cosign 3
	SignatureGiven    = "given"    // argument signature of a step artifact.pull_blob
)

// PlanArtifacts bounds what the steps may bring to the node.
type PlanArtifacts struct {
	// Sources are kinds of sources with prefixes (s3:models/public). What a step brings is one of them
	// or lies below one.
	Sources  []string `json:"sources" jsonschema:"minItems=1,maxItems=32"`
	MaxBytes int64    `json:"max_bytes" jsonschema:"minimum=1,maximum=17592186044416"` // of each artifact
	// Signed: the definition or the policy required a signature of each artifact.
	Signed bool `json:"signed,omitzero"`
}

// PlannedStep is one step of a plan. The values of its arguments are literals, or the outputs of
// earlier steps.
type PlannedStep struct {
	ID   string               `json:"id" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	Kind string               `json:"kind" jsonschema:"maxLength=64"`
	With map[string]StepValue `json:"with,omitempty" jsonschema:"maxProperties=16"`
	// Command is the command profile of a step command.exec_allowlisted, as JSON.
	Command json.RawMessage `json:"command,omitempty"`
	// TimeoutSeconds bounds one attempt of the step, and Attempts their number.
	TimeoutSeconds int  `json:"timeout_seconds" jsonschema:"minimum=1,maximum=86400"`
	Attempts       int  `json:"attempts" jsonschema:"minimum=1,maximum=10"`
	Rerun          bool `json:"rerun,omitempty"` // runs again in a later task of the operation
}

// Credential returns the scope of a step credential.mint of a type, and the steps that pull with its
// credential. ok is false if the plan has no such step.
func (p *OperationPlan) Credential(step, credentialType string) (scope string, pulls []PlannedStep, ok bool) {
	for _, s := range p.Steps {
		switch {
		case s.ID == step:
			scope, _ = s.With["scope"].Literal.(string)
			ok = s.Kind == "credential.mint" && s.With["type"].Literal == credentialType && scope != ""
		case s.With["credential"].From == "steps."+step:
			pulls = append(pulls, s)
		}
	}
	return scope, pulls, ok
}

// OperationResult has a row for each attempt of each step, in the order in which they ran.
type OperationResult struct {
	// OperationID, Operation, DefinitionDigest and InputsDigest are those of the plan. The node signs
	// them with its evidence.
	OperationID      string `json:"operation_id"`
	Operation        string `json:"operation"`
	DefinitionDigest string `json:"definition_digest"`
	InputsDigest     string `json:"inputs_digest"`

	Steps []OperationStep `json:"steps" jsonschema:"maxItems=704"`
	// Wiped counts the secrets that the task held and has overwritten.
	Wiped int `json:"wiped"`
}

// ReadOperationResult reads the result of a task as its node reported it. A later agent's result may have more
// fields.
func ReadOperationResult(raw []byte) (r OperationResult, err error) {
	err = DecodeLoose(raw, &r)
	return r, err
}

// OperationStep is one attempt of one step. A step that a former task of the operation completed has
// one row, with Earlier.
type OperationStep struct {
	ID string `json:"id"`
	StepRecord
	// Earlier: a former task of the operation completed the step, and this task did not run it.
	Earlier bool   `json:"earlier,omitempty"`
	Message string `json:"message,omitempty" jsonschema:"maxLength=1024"`
	// Output is what the step gives later steps. A secret is not told.
	Output string `json:"output,omitempty" jsonschema:"maxLength=1024"`
	// Digest and Bytes are of the content that the step brought to the node, verified or wrote.
	Digest string `json:"digest,omitempty" jsonschema:"maxLength=71"`
	Bytes  int64  `json:"bytes,omitempty"`
}

// Faults of an operation's run on the node.
const (
	CodePlanInvalid     Code = "plan_invalid"     // the plan is signed, and this agent refuses it all the same
	CodeStepUnsupported Code = "step_unsupported" // this agent, or this machine, cannot carry out the kind
	CodeStepFailed      Code = "step_failed"      // of the operation: a step used up its attempts
	CodeStepTimeout     Code = "step_timeout"
	CodeStepInterrupted Code = "step_interrupted" // the agent stopped in the middle of the step
	CodeSourceRefused   Code = "source_refused"   // not on the plan's list, or leads where no artifact is
	CodeDigestMismatch  Code = "digest_mismatch"
	CodeArtifactTooBig  Code = "artifact_too_big"
	CodePathRefused     Code = "path_refused" // what a step writes would lead through a link
	CodeDiskFull        Code = "disk_full"    // a file system of the node has no room for what a step brings
)
