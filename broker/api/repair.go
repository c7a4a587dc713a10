package api

import "time"

// Repair is one repair of a machine, by part. It outlives its node.
type Repair struct {
	ID            string     `json:"id"`
	NodeID        string     `json:"node_id" doc:"empty: the part was in no node on record"`
	Hostname      string     `json:"hostname" doc:"of the node when the repair was recorded"`
	Site          string     `json:"site"`
	MaintenanceID string     `json:"maintenance_id" doc:"empty: none"`
	Source        string     `json:"source" doc:"hand, or device: an operator accepted another part"`
	Category      string     `json:"category" doc:"gpu, cpu, memory, disk, network, power, cooling, board, firmware, planned or other"`
	Action        string     `json:"action" doc:"replaced, repaired, reseated, added, removed or returned"`
	Part          string     `json:"part" doc:"kind of the part, such as gpu or disk"`
	OldModel      string     `json:"old_model"`
	OldSerial     string     `json:"old_serial"`
	NewModel      string     `json:"new_model"`
	NewSerial     string     `json:"new_serial"`
	Ticket        string     `json:"ticket"`
	Note          string     `json:"note"`
	RecordedBy    string     `json:"recorded_by"`
	RecordedAt    time.Time  `json:"recorded_at"`
	OpenedAt      time.Time  `json:"opened_at"`
	ClosedAt      *time.Time `json:"closed_at" doc:"null: it has not ended, or its end is not known"`
}

// RepairList is one page of repairs.
type RepairList struct {
	Standing
	Items []Repair `json:"items"`
	Next  string   `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// RepairAdd is a repair to record.
type RepairAdd struct {
	Node        string    `json:"node,omitempty" maxLength:"320" doc:"an id, also of a deleted node, a unique id prefix, a hostname, or site/hostname; empty: none on record"`
	Line        int       `json:"line,omitzero" minimum:"0" doc:"line of the file from which the item comes; a refusal names it"`
	Maintenance string    `json:"maintenance,omitempty" maxLength:"64" doc:"id of the maintenance in which it was done"`
	Category    string    `json:"category" maxLength:"16"`
	Action      string    `json:"action" maxLength:"16"`
	Part        string    `json:"part" minLength:"1" maxLength:"40" doc:"kind of the part, such as gpu or disk"`
	OldModel    string    `json:"old_model,omitempty" maxLength:"100"`
	OldSerial   string    `json:"old_serial,omitempty" maxLength:"100"`
	NewModel    string    `json:"new_model,omitempty" maxLength:"100"`
	NewSerial   string    `json:"new_serial,omitempty" maxLength:"100"`
	Ticket      string    `json:"ticket,omitempty" maxLength:"100"`
	Note        string    `json:"note,omitempty" maxLength:"500"`
	OpenedAt    time.Time `json:"opened_at,omitzero" doc:"default: now"`
	ClosedAt    time.Time `json:"closed_at,omitzero"`
}

// RepairsAdd records repairs: all, or none.
type RepairsAdd struct {
	Items []RepairAdd `json:"items" minItems:"1" maxItems:"1000"`
}

// RepairsResult counts what became of a list of repairs.
type RepairsResult struct {
	Recorded []Repair `json:"recorded" doc:"the repairs that are new"`
	Known    int      `json:"known" doc:"repairs that were on record already, and were left as they are"`
}

// HostReplace records that a machine took the place of another one.
type HostReplace struct {
	Old    string `json:"old" minLength:"1" maxLength:"320" doc:"an id, a unique id prefix, a hostname, or site/hostname"`
	New    string `json:"new" minLength:"1" maxLength:"320"`
	Ticket string `json:"ticket,omitempty" maxLength:"100"`
	Reason string `json:"reason" maxLength:"500"`
}

// HostReplacement links a machine with the one that took its place.
type HostReplacement struct {
	OldNodeID string    `json:"old_node_id"`
	NewNodeID string    `json:"new_node_id"`
	At        time.Time `json:"at"`
	By        string    `json:"by"`
	Ticket    string    `json:"ticket"`
	Reason    string    `json:"reason"`
}
