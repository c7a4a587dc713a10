package broker

import (
	"cmp"
	"encoding/json"
	"time"
)

// OperationDefinitionStatus is how far a version of an operation's definition is.
type OperationDefinitionStatus string

// The statuses. DefinitionRetired is final.
const (
	DefinitionDraft      OperationDefinitionStatus = "draft"      // a push replaces its content, and nothing runs it
	DefinitionActive     OperationDefinitionStatus = "active"     // its content never changes again
	DefinitionDeprecated OperationDefinitionStatus = "deprecated" // executions begin, with a warning
	DefinitionRetired    OperationDefinitionStatus = "retired"    // no execution begins
)

// OperationDefinitionStatuses lists all statuses.
var OperationDefinitionStatuses = []OperationDefinitionStatus{DefinitionDraft, DefinitionActive, DefinitionDeprecated, DefinitionRetired}

// MaxOperationDefinitions is how many versions of operations a broker keeps. None is ever deleted:
// executions and their statements refer to them.
const MaxOperationDefinitions = 2000

// OperationDefinition is the record of one version of an operation's definition.
type OperationDefinition struct {
	Operation string // gpu.host.bootstrap
	Version   string // v1
	Summary   string
	Status    OperationDefinitionStatus
	Digest    string          // sha256:… of Content
	Content   json.RawMessage // canonical JSON; empty in a list
	Shipped   bool            // it came with the broker
	CreatedAt time.Time
	CreatedBy string
	ChangedAt time.Time // of the last change of content or status
	ChangedBy string
}

// ID is the operation with its version: gpu.host.bootstrap@v1.
func (d OperationDefinition) ID() string { return d.Operation + "@" + d.Version }

// OperationDefinitionNotFound is the answer about a definition that does not exist.
func OperationDefinitionNotFound(id string) *Error {
	return Errorf(NotFound, "operation_definition_not_found", "there is no definition %q (see hostler operation-definition list)", cleanText(id))
}

// definitionTransitions is the whole table: each pair of statuses with the command that leads from one to
// the other. Every pair outside the table is refused; nothing leads back.
var definitionTransitions = map[definitionEdge]string{
	{DefinitionDraft, DefinitionActive}:       "activate",
	{DefinitionDraft, DefinitionRetired}:      "retire", // a draft that nobody wants
	{DefinitionActive, DefinitionDeprecated}:  "deprecate",
	{DefinitionDeprecated, DefinitionRetired}: "retire",
}

type definitionEdge struct{ from, to OperationDefinitionStatus }

// definitionHints are the next actions where a later transition is refused.
var definitionHints = map[definitionEdge]string{
	{DefinitionDraft, DefinitionDeprecated}: "a draft runs nothing (retire it, or push content that replaces it)",
	{DefinitionActive, DefinitionRetired}:   "it is not deprecated (deprecate it first)",
}

// TransitionOperationDefinition says whether a definition may move from its status to another. It is the
// only user of the table. Code: transition_refused. Staying in the same status is no transition: callers
// look first.
func TransitionOperationDefinition(d OperationDefinition, to OperationDefinitionStatus) error {
	edge := definitionEdge{d.Status, to}
	if definitionTransitions[edge] != "" {
		return nil
	}
	return Errorf(Refused, "transition_refused", "cannot move definition %s from %s to %s: %s", d.ID(), d.Status, to,
		cmp.Or(definitionHints[edge], "there is no way back (push a new version)"))
}

// MayReplace refuses to replace the content of a definition that is no draft. Code:
// operation_definition_fixed.
func (d OperationDefinition) MayReplace() error {
	if d.Status == DefinitionDraft {
		return nil
	}
	return Errorf(Refused, "operation_definition_fixed",
		"cannot change definition %s: it is %s, and the content of a version stays what it was when it became active (push a new version)",
		d.ID(), d.Status)
}

// MayRun refuses an execution of a draft and of a retired definition. The warning is empty unless the
// definition is deprecated. Codes: operation_definition_draft, operation_definition_retired.
func (d OperationDefinition) MayRun() (warning string, err error) {
	switch d.Status {
	case DefinitionActive:
		return "", nil
	case DefinitionDeprecated:
		return "definition " + d.ID() + " is deprecated, and will be retired (use a newer version)", nil
	case DefinitionDraft:
		return "", Errorf(Refused, "operation_definition_draft",
			"cannot run %s: its definition is a draft (a platform_admin activates it: hostler operation-definition activate %s)", d.ID(), d.ID())
	}
	return "", Errorf(Refused, "operation_definition_retired", "cannot run %s: its definition is %s (use a newer version: hostler operation-definition list --operation %s)",
		d.ID(), cleanText(string(d.Status)), d.Operation)
}
