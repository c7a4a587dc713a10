package api

import "time"

// Maintenance is work of people on a node: planned, open or over. While it is open, nobody new is let in.
type Maintenance struct {
	ID        string             `json:"id"`
	NodeID    string             `json:"node_id"`
	Hostname  string             `json:"hostname"`
	Site      string             `json:"site"`
	Status    string             `json:"status" doc:"planned, open, closed, cancelled or missed"`
	Because   string             `json:"because" doc:"what keeps it from beginning or from being closed, or why it ended"`
	Category  string             `json:"category" doc:"gpu, cpu, memory, disk, network, power, cooling, board, firmware, planned or other"`
	Tenant    string             `json:"tenant" doc:"stays: nobody new is let in; leaves: the platform releases the allocation that has the node"`
	Planned   bool               `json:"planned" doc:"it begins and ends by itself"`
	Ticket    string             `json:"ticket"`
	Reason    string             `json:"reason"`
	CreatedBy string             `json:"created_by"`
	CreatedAt time.Time          `json:"created_at"`
	From      time.Time          `json:"from"`
	Until     *time.Time         `json:"until" doc:"expected end; null: not known"`
	Overdue   bool               `json:"overdue" doc:"it is open, and its expected end has passed"`
	OpenedAt  *time.Time         `json:"opened_at" doc:"null: it has not begun"`
	ClosedAt  *time.Time         `json:"closed_at" doc:"closed, cancelled or missed; null: not yet"`
	ClosedBy  string             `json:"closed_by"`
	Checks    []MaintenanceCheck `json:"checks" doc:"what the node must pass before it is closed, of the last try"`
}

// MaintenanceCheck is a check of a node whose maintenance is to be closed.
type MaintenanceCheck struct {
	Check   string `json:"check" doc:"parts: the agent was heard, and no part is missing or unexpected; turned_over: a turnover since then has cleaned the node"`
	Result  string `json:"result" doc:"passed or failed"`
	Code    string `json:"code" doc:"why it failed"`
	Message string `json:"message"`
}

// MaintenanceNote is what somebody wrote about a maintenance.
type MaintenanceNote struct {
	Number int       `json:"number" doc:"from 1"`
	At     time.Time `json:"at"`
	Author string    `json:"author"`
	Text   string    `json:"text"`
}

// MaintenanceDetail is a maintenance with its notes.
type MaintenanceDetail struct {
	Maintenance
	AllocationID string            `json:"allocation_id" doc:"the allocation that has the node now; empty: none"`
	Notes        []MaintenanceNote `json:"notes"`
}

// MaintenanceList is one page of maintenances.
type MaintenanceList struct {
	Standing
	Items []Maintenance `json:"items"`
	Next  string        `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// MaintenanceCreate opens or plans a maintenance of a node.
type MaintenanceCreate struct {
	Node     string    `json:"node" minLength:"1" maxLength:"320" doc:"an id, a unique id prefix, a hostname, or site/hostname"`
	Category string    `json:"category" maxLength:"16"`
	Tenant   string    `json:"tenant,omitempty" maxLength:"16" doc:"stays or leaves; default: stays"`
	Ticket   string    `json:"ticket,omitempty" maxLength:"100"`
	Reason   string    `json:"reason" maxLength:"500"`
	From     time.Time `json:"from,omitzero" doc:"plans it: it begins and ends by itself; default: it is opened now, and a person closes it"`
	Until    time.Time `json:"until,omitzero" doc:"expected end; a planned one must have it"`
}

// MaintenanceNoteAdd adds a note.
type MaintenanceNoteAdd struct {
	Text string `json:"text" minLength:"1" maxLength:"1000"`
}

// MaintenanceClose closes an open maintenance, or cancels a planned one.
type MaintenanceClose struct {
	Reason   string `json:"reason" maxLength:"500"`
	Override bool   `json:"override,omitempty" doc:"close it without checks; needs a platform_admin"`
}
