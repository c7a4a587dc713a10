package api

import "time"

// ProjectTerminalStart asks for a session on a node of an allocation, as the allocation's own user.
type ProjectTerminalStart struct {
	Hostname string            `json:"hostname,omitempty" maxLength:"253" doc:"hostname of one of the allocation's logins; may be left out if the allocation has one node"`
	Term     string            `json:"term,omitempty" maxLength:"64"`
	Locale   map[string]string `json:"locale,omitempty" doc:"the member's LANG and LC_ variables"`
	Columns  int               `json:"columns" minimum:"1" maximum:"4096"`
	Rows     int               `json:"rows" minimum:"1" maximum:"4096"`
	Reason   string            `json:"reason,omitempty" maxLength:"500"`
}

// ProjectTerminal is a session of one member on one node of an allocation, as its project sees it.
type ProjectTerminal struct {
	ID            string         `json:"id"`
	AllocationID  string         `json:"allocation_id"`
	Username      string         `json:"username"`
	OpenedBy      string         `json:"opened_by" doc:"name of the token that opened the session"`
	Reason        string         `json:"reason"`
	Status        string         `json:"status" enum:"opening,open,detached,closing,closed"`
	EndCode       string         `json:"end_code" doc:"why the session ended; empty: it has not ended. terminal_node_unready: the node takes no terminal"`
	EndText       string         `json:"end_text" doc:"end_code for people"`
	ExitStatus    *int           `json:"exit_status" doc:"exit status of the session's program; null: not known"`
	Recorded      bool           `json:"recorded" doc:"always true: what the terminal shows is recorded, and the platform's admins can read it"`
	RecordInput   bool           `json:"record_input" doc:"the recording contains what the member types, too"`
	MaxSeconds    int64          `json:"max_seconds" doc:"longest duration of the session"`
	IdleSeconds   int64          `json:"idle_seconds" doc:"longest time without a key pressed"`
	DetachSeconds int64          `json:"detach_seconds" doc:"longest time without the member or without the node"`
	CreatedAt     time.Time      `json:"created_at"`
	StatusAt      time.Time      `json:"status_at"`
	ClosedAt      *time.Time     `json:"closed_at" doc:"null: not closed"`
	Filter        TerminalFilter `json:"filter" doc:"which parts of the node's output pass"`
}

// ProjectTerminalTicket is a session with a ticket. The ticket works once, for half a minute, and only
// for the token that asked for it.
type ProjectTerminalTicket struct {
	Terminal        ProjectTerminal `json:"terminal"`
	Ticket          string          `json:"ticket"`
	TicketExpiresAt time.Time       `json:"ticket_expires_at"`
}

// ProjectTerminalList is a page, newest first.
type ProjectTerminalList struct {
	Items []ProjectTerminal `json:"items"`
	Next  string            `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
