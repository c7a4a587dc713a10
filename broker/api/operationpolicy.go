package api

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// OperationOverlay is what a level says of an operation. A key that is left out says nothing, and an empty
// list permits nothing.
type OperationOverlay struct {
	Enabled                      *bool    `json:"enabled,omitempty"`
	MaxConcurrency               *int64   `json:"max_concurrency,omitempty" minimum:"1" maximum:"10000" doc:"most executions of the operation that a project has at the same time"`
	TimeoutSeconds               *int64   `json:"timeout_seconds,omitempty" minimum:"1" maximum:"86400" doc:"of an execution"`
	AllowedArtifactSources       []string `json:"allowed_artifact_sources,omitzero" maxItems:"32" doc:"KIND:PREFIX, such as s3:models, which permits all that lies below it"`
	AllowedTargetKinds           []string `json:"allowed_target_kinds,omitzero" maxItems:"32" doc:"of node, allocation and group"`
	RequireSignatureVerification *bool    `json:"require_signature_verification,omitempty"`
	MaxArtifactSizeBytes         *int64   `json:"max_artifact_size_bytes,omitempty" minimum:"1" maximum:"17592186044416" doc:"of each artifact"`

	Conditions []broker.OperationCondition `json:"conditions,omitempty" maxItems:"16" doc:"must all be true of an execution, with those of the other levels"`
}

// OperationRule names a policy of operations by its level and operation.
type OperationRule struct {
	Level     string `json:"level" enum:"global,tenant,project"`
	Operation string `json:"operation" doc:"* for all operations"`
}

// OperationPolicy is the policy of a level for an operation.
type OperationPolicy struct {
	OperationRule
	OrganisationID string           `json:"organisation_id,omitempty" doc:"of a policy of an organisation or a project"`
	ProjectID      string           `json:"project_id,omitempty" doc:"of a policy of a project"`
	Policy         OperationOverlay `json:"policy"`
	UpdatedAt      time.Time        `json:"updated_at"`
	Warning        string           `json:"warning,omitempty" doc:"of a policy that was just set: the operation has no definition in force"`
}

// PlatformOperationPolicyList is one page of the global policies.
type PlatformOperationPolicyList struct {
	Standing
	Items []OperationPolicy `json:"items"`
	Next  string            `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OperationPolicyList is one page of the policies of an organisation or a project.
type OperationPolicyList struct {
	Items []OperationPolicy `json:"items"`
	Next  string            `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OperationPolicyPut replaces the policy of a level for an operation.
type OperationPolicyPut struct {
	Policy OperationOverlay `json:"policy"`
	Reason string           `json:"reason,omitempty" maxLength:"500"`
}

// EffectiveOperationPolicy is what all levels together say of an operation in a project.
type EffectiveOperationPolicy struct {
	ProjectID string                       `json:"project_id"`
	Operation string                       `json:"operation"`
	Policy    OperationOverlay             `json:"policy" doc:"each key as narrow as the narrowest level; a key that is left out has no limit; without conditions"`
	DecidedBy map[string]OperationDecision `json:"decided_by" doc:"by key: the last policy that set or narrowed it, from the widest level"`
	// Conditions have no expressions: those of a wider level may name what only that level knows.
	Conditions   []RuledCondition `json:"conditions,omitempty" doc:"of all levels, from the widest; each must be true of an execution"`
	PolicyEngine bool             `json:"policy_engine,omitempty" doc:"the platform also asks a policy engine, which may deny what the policies permit"`
}

// RuledCondition is a condition with the policy that has it.
type RuledCondition struct {
	OperationRule
	Name    string `json:"name"`
	Message string `json:"message" doc:"told to whoever is denied"`
}

// OperationDecision says which policy decided a key.
type OperationDecision struct {
	OperationRule
	Apart *OperationRule `json:"apart,omitempty" doc:"of a list of which nothing is left: the wider policy that has no entry in common with this one"`
}
