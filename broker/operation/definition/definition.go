package definition

import (
	"crypto/sha256"
	"encoding/hex"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// BackendNodeAgent is the backend of operations that the agent of a node carries out.
const BackendNodeAgent = "node_agent"

// Safety says what a node must be before an operation begins.
const (
	SafetyIdle    = "idle"    // no allocation holds the node
	SafetyDrained = "drained" // the node takes no new work, and its work has ended
	SafetyForced  = "forced"  // the operation may begin beside the node's work
)

// SignatureRequired is the signature of artifacts that must be signed, whatever the policy says.
const SignatureRequired = "required"

// Definition is what an operation does. Parse returns only valid definitions.
type Definition struct {
	Operation string `json:"operation" jsonschema:"pattern=^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*){1\\,4}$,maxLength=64"`
	Version   string `json:"version" jsonschema:"pattern=^v[1-9][0-9]{0\\,3}$"`
	Summary   string `json:"summary" jsonschema:"minLength=1,maxLength=200"`
	// Backend is who carries the operation out: the node's agent, or an adapter of the broker.
	Backend string `json:"backend_type" jsonschema:"enum=node_agent,enum=slurm_adapter,enum=k8s_adapter,enum=ray_adapter"`
	Safety  string `json:"safety" jsonschema:"enum=idle,enum=drained,enum=forced"`
	// Targets are the kinds of targets that a caller may name.
	Targets         []string `json:"targets" jsonschema:"minItems=1,maxItems=3,uniqueItems=true,enum=node,enum=allocation,enum=group"`
	DeadlineSeconds int      `json:"deadline_seconds" jsonschema:"minimum=1,maximum=86400"` // of the whole operation
	// Requires are the capabilities that a node must have: fact → permitted values.
	Requires  map[string][]string `json:"requires,omitempty" jsonschema:"maxProperties=16"`
	Inputs    Inputs              `json:"inputs,omitzero"`
	Artifacts *Artifacts          `json:"artifacts,omitempty"`
	Steps     []Step              `json:"steps" jsonschema:"minItems=1,maxItems=64"`
	// Undo names the operation that takes back what this one has done: slurm.node.leave@v1.
	Undo string `json:"undo,omitempty" jsonschema:"pattern=^[a-z][a-z0-9_.]*@v[1-9][0-9]{0\\,3}$,maxLength=70"`

	Commands []profiles.CommandProfile `json:"command_profiles,omitempty" jsonschema:"-"`
}

// Artifacts says what the steps may bring to a node.
type Artifacts struct {
	// Sources are kinds of sources with prefixes: s3:models/public. What a step brings, and what a credential is
	// for, is one of them or lies below one.
	Sources []string `json:"sources" jsonschema:"minItems=1,maxItems=32"`
	// Signature is required, or as_policy: the policies of the broker alone decide.
	Signature string `json:"signature" jsonschema:"enum=required,enum=as_policy"`
	MaxBytes  int64  `json:"max_bytes" jsonschema:"minimum=1,maximum=17592186044416"` // of each artifact
}

// Step is one step of an operation.
type Step struct {
	ID   string                           `json:"id" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	Kind string                           `json:"kind"`
	With map[string]taskcatalog.StepValue `json:"with,omitempty" jsonschema:"maxProperties=16"`
	// TimeoutSeconds bounds one attempt.
	TimeoutSeconds int `json:"timeout_seconds" jsonschema:"minimum=1,maximum=86400"`
	// Attempts is how often the step is tried before it has failed.
	Attempts int `json:"attempts,omitempty" jsonschema:"minimum=1,maximum=10"`
	// Rerun: a retry of the operation runs the step again although it had succeeded.
	Rerun bool `json:"rerun,omitempty"`
}

// ID is the operation with its version: model.artifact.stage@v1.
func (d *Definition) ID() string { return d.Operation + "@" + d.Version }

// Encode returns the definition's canonical JSON.
func (d *Definition) Encode() ([]byte, error) { return taskcatalog.Encode(d) }

// Digest returns sha256:… of the canonical JSON.
func (d *Definition) Digest() string {
	raw, err := d.Encode()
	if err != nil {
		panic("a definition of texts and numbers does not encode: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
