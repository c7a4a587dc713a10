package api

import (
	"encoding/json"
	"time"
)

// EventStream is the content type of GET /events and of a project's events: server-sent events. The id of each is the id of
// its Event, and the data is the Event on one line. An id without data says how far the stream has
// come.
const EventStream = "text/event-stream"

// HeaderLastEventID names the event after which a stream continues, as browsers send it.
const HeaderLastEventID = "Last-Event-ID"

// ProjectEvent is a CloudEvent (1.0, JSON) about an allocation or an operation, as the project sees it. It has only
// what the project may know, each field by name. The id is opaque, and the same each time that the
// event is sent.
type ProjectEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type" doc:"type of the event, such as provisioning.active"`
	Subject         string    `json:"subject" doc:"allocation/ID or operation/ID"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data" doc:"ProjectEventData, ProjectMaintenanceData, ProjectOperationData or ProjectOperationProgress"`
}

// ProjectEventData says which status an allocation has reached.
type ProjectEventData struct {
	AllocationID   string   `json:"allocation_id"`
	ProjectID      string   `json:"project_id"`
	From           string   `json:"from" doc:"the status before; empty: a new allocation"`
	To             string   `json:"to" doc:"the status"`
	SKU            string   `json:"sku"`
	Nodes          int      `json:"nodes" doc:"number of whole nodes; 0: GPUs of one node"`
	GPUs           int      `json:"gpus" doc:"number of GPUs of one node; 0: whole nodes"`
	Code           string   `json:"code" doc:"why the allocation or its release failed, or end_operation_passed (the release goes on without the operation of its end); empty: no failure"`
	CertificateIDs []string `json:"certificate_ids" doc:"ids of the certificates that end a released allocation"`
}

// ProjectMaintenanceData tells of a maintenance of a node that an allocation has.
type ProjectMaintenanceData struct {
	AllocationID  string `json:"allocation_id"`
	ProjectID     string `json:"project_id"`
	MaintenanceID string `json:"maintenance_id"`
	Tenant        string `json:"tenant" doc:"stays, or leaves: the platform releases the allocation when the maintenance begins"`
	From          string `json:"from"`
	Until         string `json:"until" doc:"expected end; empty: not known"`
}

// ProjectOperationData says that an operation was requested, or how it ended.
type ProjectOperationData struct {
	OperationID   string `json:"operation_id"`
	CorrelationID string `json:"correlation_id"`
	ProjectID     string `json:"project_id"`
	Operation     string `json:"operation"`
	Target        string `json:"target"`
	AllocationID  string `json:"allocation_id"`
	Group         string `json:"group" doc:"the selector of a group; empty: the target is an allocation"`
	Status        string `json:"status"`
	Attempt       int    `json:"attempt"`
	Code          string `json:"code" doc:"why it failed or was canceled; empty: neither"`
}

// ProjectOperationProgress says that an operation came to another step on one of its nodes.
type ProjectOperationProgress struct {
	OperationID      string    `json:"operation_id"`
	CorrelationID    string    `json:"correlation_id"`
	ProjectID        string    `json:"project_id"`
	Place            int       `json:"place" doc:"of the node among the nodes of the operation, from 1"`
	CurrentStepIndex int       `json:"current_step_index"`
	TotalSteps       int       `json:"total_steps"`
	CurrentStepName  string    `json:"current_step_name"`
	StepStatus       string    `json:"step_status" doc:"running, succeeded or failed"`
	StepStartedAt    time.Time `json:"step_started_at"`
	StepPercent      int       `json:"step_percent"`
}

// Event is a CloudEvent (1.0, JSON) about something that happened. Ids are numbers without gaps, in
// stream order.
type Event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type" doc:"type of the event, such as node.status.changed"`
	Subject         string          `json:"subject,omitempty" doc:"node/ID, run/ID, site/NAME and others"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Site            string          `json:"site,omitempty" doc:"name of the site; *: all sites"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}
