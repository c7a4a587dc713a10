package api

import (
	"encoding/json"
	"time"
)

// OperationCreate asks for an operation of a project on one of its allocations, or on a group of them.
type OperationCreate struct {
	Operation    string          `json:"operation" minLength:"1" maxLength:"70" doc:"a definition with its version, such as model.artifact.stage@v1"`
	AllocationID string          `json:"allocation_id,omitempty" maxLength:"64" doc:"an active allocation of the project; the operation runs on each of its nodes"`
	Group        string          `json:"group,omitempty" maxLength:"4000" doc:"instead of allocation_id: all, a list of allocations separated by commas, or key=value,key=value that must all hold, with a key site or sku, or a label. The active allocations of the project that match now, at one site and of one SKU, at most 100"`
	Canary       int             `json:"canary,omitzero" minimum:"0" maximum:"1000" doc:"so many nodes first; 0: no canary"`
	Batch        int             `json:"batch,omitzero" minimum:"0" maximum:"1000" doc:"so many nodes at a time after the canary; 0: all others"`
	MaxFailures  int             `json:"max_failures,omitzero" minimum:"0" maximum:"1000" doc:"so many failed nodes end it before the next batch; 0: the first. A failed canary always does"`
	Inputs       json.RawMessage `json:"inputs,omitempty" doc:"an object, held against the definition's schema"`
	Reason       string          `json:"reason,omitempty" maxLength:"500"`
}

// PlatformOperationCreate asks for an operation on a node, or on several, that no allocation holds.
type PlatformOperationCreate struct {
	Operation   string          `json:"operation" minLength:"1" maxLength:"70" doc:"a definition with its version, such as gpu.host.bootstrap@v1"`
	Node        string          `json:"node,omitempty" maxLength:"320" doc:"an id, a hostname or site/hostname"`
	Nodes       string          `json:"nodes,omitempty" maxLength:"4000" doc:"instead of node: all, a list of nodes separated by commas, or key=value,key=value that must all hold, such as site=dc1,rack=r12. Nodes that match now and on which the operation can begin, at one site and of one SKU, at most 1000"`
	Canary      int             `json:"canary,omitzero" minimum:"0" maximum:"1000" doc:"so many nodes first; 0: no canary"`
	Batch       int             `json:"batch,omitzero" minimum:"0" maximum:"1000" doc:"so many nodes at a time after the canary; 0: all others"`
	MaxFailures int             `json:"max_failures,omitzero" minimum:"0" maximum:"1000" doc:"so many failed nodes end it before the next batch; 0: the first. A failed canary always does"`
	Inputs      json.RawMessage `json:"inputs,omitempty" doc:"an object, held against the definition's schema"`
	Reason      string          `json:"reason" maxLength:"500"`
}

// OperationPlan is the plan that an operation would have. Nothing is begun.
type OperationPlan struct {
	Warning string          `json:"warning" doc:"empty: none"`
	Plan    json.RawMessage `json:"plan" doc:"the params of the task operation.run, but for its id"`
	// Artifacts are what the plan brings, in the order of its steps.
	Artifacts []PlannedArtifact `json:"artifacts"`
	// Nodes and PassedOver are of the platform's group alone.
	Nodes      []PlannedNode `json:"nodes,omitempty" doc:"of a group of the platform: the nodes, in the order of their places"`
	PassedOver []PassedNode  `json:"passed_over,omitempty" doc:"of a group of the platform: the nodes that the selector names and that the operation cannot begin on"`
}

// PlannedNode is a node on which an operation would run.
type PlannedNode struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname"`
	Batch    int    `json:"batch" doc:"from 1"`
}

// PassedNode is a node that an operation passes over.
type PassedNode struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname"`
	Code     string `json:"code"`
	Because  string `json:"because"`
}

// PlannedArtifact is what an operation would bring to a node, with what vouches for it.
type PlannedArtifact struct {
	Source            string             `json:"source" doc:"KIND:PATH, such as oci:registry.example/models/llama"`
	Digest            string             `json:"digest" doc:"empty: Python packages, which their lock pins"`
	Steps             []string           `json:"steps" doc:"the steps that bring it"`
	SignatureRequired bool               `json:"signature_required"`
	Because           string             `json:"because" doc:"what requires a signature: the definition, a level of the policy, or an artifact signer; if none is required, the level of the policy that says so"`
	Signatures        []PlannedSignature `json:"signatures" doc:"the signatures that were verified"`
}

// PlannedSignature is a signature that was verified for a plan.
type PlannedSignature struct {
	Signer       string     `json:"signer" doc:"name of the artifact signer"`
	SignerSource string     `json:"signer_source" doc:"the source for which the signer is set"`
	KeyDigest    string     `json:"key_digest" doc:"of the public key in DER; empty: an identity signed"`
	Issuer       string     `json:"issuer" doc:"of the certificate; empty: a key signed"`
	Subject      string     `json:"subject" doc:"of the certificate; empty: a key signed"`
	Form         string     `json:"form" doc:"tag and referrer: from the registry; given: with the step"`
	SignedAt     *time.Time `json:"signed_at" doc:"as a log or a timestamp authority says; null: nobody says"`
}

// Operation is one execution of a definition.
type Operation struct {
	ID               string              `json:"id"`
	Operation        string              `json:"operation" doc:"the definition with its version"`
	DefinitionDigest string              `json:"definition_digest"`
	OrganisationID   string              `json:"organisation_id" doc:"empty: an operation of the platform"`
	ProjectID        string              `json:"project_id" doc:"empty: an operation of the platform"`
	Target           string              `json:"target" doc:"allocation, group or node"`
	AllocationID     string              `json:"allocation_id" doc:"empty: the target is a node or a group"`
	Group            string              `json:"group" doc:"the selector of a group; empty: the target is none"`
	Members          []OperationMember   `json:"members" doc:"the allocations of a group, or the nodes of one of the platform, in the order of the places; empty in a list"`
	Nodes            int                 `json:"nodes" doc:"how many nodes the operation runs on"`
	Batches          OperationBatches    `json:"batches"`
	Trigger          string              `json:"trigger_source" doc:"tenant_request, admin, or of the allocation itself: allocation_provision, allocation_release"`
	RequestedBy      string              `json:"requested_by"`
	Reason           string              `json:"reason"`
	CorrelationID    string              `json:"correlation_id"`
	TraceID          string              `json:"trace_id" doc:"of the trace of the request that began it, in all its attempts; empty: an earlier release began it"`
	Status           string              `json:"status" doc:"queued, running, succeeded, failed or canceled"`
	Attempt          int                 `json:"attempt" doc:"counts the tries, from 1"`
	Canceling        bool                `json:"canceling" doc:"somebody asked for its end, and it has not ended"`
	Code             string              `json:"code" doc:"why it failed or was canceled; empty: neither"`
	Message          string              `json:"message" doc:"what the code means, and what to do next; empty: it did not fail"`
	Progress         []OperationProgress `json:"progress" doc:"where its nodes are, of at most 64 nodes; empty in a list, and unless it is running"`
	RequestedAt      time.Time           `json:"requested_at"`
	StartedAt        *time.Time          `json:"started_at" doc:"of the present attempt; null: not yet"`
	EndedAt          *time.Time          `json:"ended_at" doc:"of the present attempt; null: not yet"`
}

// OperationBatches says how an operation goes from node to node, and how far it is.
type OperationBatches struct {
	Canary      int  `json:"canary" doc:"nodes of the first batch; 0: no canary"`
	Size        int  `json:"size" doc:"nodes of each further batch; 0: all others"`
	MaxFailures int  `json:"max_failures" doc:"so many failed nodes end the operation before the next batch; 0: the first"`
	Count       int  `json:"count" doc:"how many batches the nodes make"`
	Present     int  `json:"present" doc:"the batch of the present attempt, from 1"`
	Stopped     bool `json:"stopped" doc:"it has ended before its last batch, for the reason that code gives: the nodes of later batches got no task"`
}

// OperationMember is an allocation of a group, or a node of one of the platform, with what became of its nodes in the present attempt.
type OperationMember struct {
	AllocationID string `json:"allocation_id" doc:"empty: the member is a node"`
	NodeID       string `json:"node_id,omitempty" doc:"of a group of the platform; empty: the member is an allocation"`
	Nodes        int    `json:"nodes"`
	Succeeded    int    `json:"succeeded"`
	Failed       int    `json:"failed"`
	Skipped      int    `json:"skipped" doc:"nodes that were asked for nothing, because the allocation was not the project's any more, or the operation could not begin on the node any more"`
	Code         string `json:"code" doc:"of the first node that failed, or why nodes were skipped (operation_target_gone: the allocation was released); empty: neither"`
}

// OperationProgress is where a node is in the plan of an operation.
type OperationProgress struct {
	Place      int        `json:"place" doc:"of the node among the nodes of the operation, from 1"`
	TaskStatus string     `json:"task_status"`
	StepID     string     `json:"step_id" doc:"empty: between two steps, or not begun"`
	StepIndex  int        `json:"step_index" doc:"of the step in the plan, from 1"`
	Steps      int        `json:"steps" doc:"how many steps the plan has"`
	Percent    int        `json:"percent"`
	StartedAt  *time.Time `json:"started_at" doc:"when the step began; null: not begun"`
}

// OperationList is one page of a project's operations.
type OperationList struct {
	Items []Operation `json:"items"`
	Next  string      `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// PlatformOperation is an operation as the platform sees it.
type PlatformOperation struct {
	Operation
	Site         string   `json:"site"`
	NodeIDs      []string `json:"node_ids" doc:"in the order of their places"`
	RunID        string   `json:"run_id" doc:"of the present attempt (hostler run show)"`
	Detail       string   `json:"detail" doc:"what failed, and on which node; empty: nothing"`
	CanceledBy   string   `json:"canceled_by" doc:"empty: nobody asked for its end"`
	CancelReason string   `json:"cancel_reason"`
}

// PlatformOperationList is one page of the operations of all projects and of the platform.
type PlatformOperationList struct {
	Standing
	Items []PlatformOperation `json:"items"`
	Next  string              `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OperationLine is a row of an operation's log: one attempt of one step on one node.
type OperationLine struct {
	ID            string `json:"id" doc:"place of the row in the log; a cursor"`
	Attempt       int    `json:"attempt" doc:"of the operation"`
	Place         int    `json:"place" doc:"of the node among the nodes of the operation, from 1"`
	StepID        string `json:"step_id"`
	StepKind      string `json:"step_kind"`
	AttemptNumber int    `json:"attempt_number" doc:"of the step, from 1"`
	Status        string `json:"status" doc:"succeeded, failed, skipped or canceled"`
	ErrorCode     string `json:"error_code" doc:"empty: no error"`
	DurationMS    int64  `json:"duration_ms"`
	Earlier       bool   `json:"earlier" doc:"an earlier attempt of the operation had done the step, and this one did not run it"`
	Digest        string `json:"digest" doc:"of what the step brought, verified or wrote; empty: nothing"`
	Bytes         int64  `json:"bytes"`
}

// OperationLog is one page of the rows of an operation, in their order. Rows of an attempt appear when the
// attempt has ended.
type OperationLog struct {
	Items []OperationLine `json:"items"`
	Next  string          `json:"next" doc:"cursor of the next page; empty: there is no next page now"`
}

// PlatformOperationLine is a row with what the node said.
type PlatformOperationLine struct {
	OperationLine
	ResolvedProfile string `json:"resolved_profile" doc:"which command profile or builtin of the node did the step"`
	HardwareMatch   string `json:"hardware_match" doc:"the rule of the resolver that won"`
	Message         string `json:"message" doc:"as the node reports it"`
}

// OperationLogEvent is one event of a log that is followed: one of its fields is set. The server-sent event of a
// row has the row's id.
type OperationLogEvent[L any] struct {
	Line     *L                        `json:"line,omitempty"`
	Progress *ProjectOperationProgress `json:"progress,omitempty" doc:"a node came to another step"`
	End      *OperationEnd             `json:"end,omitempty" doc:"the last event"`
}

// OperationEnd says how an operation ended.
type OperationEnd struct {
	Status  string `json:"status"`
	Code    string `json:"code" doc:"why it failed or was canceled; empty: neither"`
	Attempt int    `json:"attempt"`
}

// PlatformOperationLog is one page of the rows of an operation of any project.
type PlatformOperationLog struct {
	Standing
	Items []PlatformOperationLine `json:"items"`
	Next  string                  `json:"next" doc:"cursor of the next page; empty: there is no next page now"`
}

// OperationStatement is the signed statement of an attempt of an operation, for hostler operation verify.
type OperationStatement struct {
	OperationID string `json:"operation_id"`
	Attempt     int    `json:"attempt"`
	Digest      string `json:"digest" doc:"sha256:… of the file"`
	File        string `json:"file" doc:"the statement as it was signed: a DSSE envelope of an in-toto statement"`
}
