package api

import (
	"encoding/json"
	"time"
)

// OperationDefinitionPush is the file of a definition.
type OperationDefinitionPush struct {
	File   string `json:"file" minLength:"1" maxLength:"200" doc:"name of the file, for messages"`
	Text   string `json:"text" doc:"the YAML of one definition, at most 256 KiB"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// OperationDefinition is one version of an operation's definition.
type OperationDefinition struct {
	ID         string          `json:"id" doc:"OPERATION@VERSION"`
	Operation  string          `json:"operation"`
	Version    string          `json:"version"`
	Summary    string          `json:"summary"`
	Status     string          `json:"status" doc:"draft, active, deprecated or retired"`
	Digest     string          `json:"digest" doc:"sha256:… of the canonical JSON of the definition"`
	Shipped    bool            `json:"shipped" doc:"it came with the broker"`
	CreatedAt  time.Time       `json:"created_at"`
	CreatedBy  string          `json:"created_by"`
	ChangedAt  time.Time       `json:"changed_at" doc:"of the last change of content or status"`
	ChangedBy  string          `json:"changed_by"`
	Had        bool            `json:"had,omitempty" doc:"of a push: the broker had this content already, and nothing changed"`
	Definition json.RawMessage `json:"definition,omitempty" doc:"the definition itself; left out in a list"`
}

// OperationDefinitionList is one page of definitions, ordered by id.
type OperationDefinitionList struct {
	Standing
	Items []OperationDefinition `json:"items"`
	Next  string                `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OperationDefinitionActivate makes a draft active, from which moment its content never changes.
type OperationDefinitionActivate struct {
	Status string `json:"status" enum:"active"`
	Digest string `json:"digest" pattern:"^sha256:[0-9a-f]{64}$" doc:"of the content that was read; another content is refused"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}
