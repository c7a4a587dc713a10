package api

import "time"

// The subprotocols of an operator's WebSocket. The ticket travels in the second protocol that the
// client offers; the broker's answer never repeats the ticket.
const (
	TerminalProtocol     = "hostler-terminal.1"
	TerminalTicketPrefix = "hostler-ticket."
)

// TerminalStart asks for a session on a node.
type TerminalStart struct {
	Node         string            `json:"node" minLength:"1" maxLength:"320" doc:"a NODE reference"`
	Username     string            `json:"username,omitempty" maxLength:"31" doc:"empty: that of the allocation, where there is one alone"`
	AllocationID string            `json:"allocation_id,omitempty" maxLength:"64" doc:"whose user it is; empty: the one that has that user"`
	Command      []string          `json:"command,omitempty" maxItems:"256" doc:"a program and its words, read by no shell; none: the user's login shell"`
	Term         string            `json:"term,omitempty" maxLength:"64"`
	Locale       map[string]string `json:"locale,omitempty" doc:"LANG and LC_ of the operator"`
	Columns      int               `json:"columns" minimum:"1" maximum:"4096"`
	Rows         int               `json:"rows" minimum:"1" maximum:"4096"`
	Reason       string            `json:"reason,omitempty" maxLength:"500"`
}

// TerminalTicketRequest asks for a ticket to an existing session.
type TerminalTicketRequest struct {
	Columns int `json:"columns" minimum:"1" maximum:"4096"`
	Rows    int `json:"rows" minimum:"1" maximum:"4096"`
}

// TerminalTicket is a session with a ticket. The ticket works once, for half a minute, and only for
// the operator that asked for it.
type TerminalTicket struct {
	Terminal        Terminal  `json:"terminal"`
	Ticket          string    `json:"ticket"`
	TicketExpiresAt time.Time `json:"ticket_expires_at"`
}

// Terminal is a session of one operator on one node.
type Terminal struct {
	ID           string `json:"id"`
	NodeID       string `json:"node_id"`
	Hostname     string `json:"hostname"`
	Site         string `json:"site,omitempty"`
	AllocationID string `json:"allocation_id,omitempty"`
	Username     string `json:"username"`
	OpenedBy     string `json:"opened_by" doc:"name of the token"`
	Reason       string `json:"reason,omitempty"`

	Status         string         `json:"status" enum:"opening,open,detached,closing,closed"`
	EndCode        string         `json:"end_code,omitempty" doc:"why it ended"`
	ExitStatus     *int           `json:"exit_status,omitempty" doc:"of its program"`
	RecordInput    bool           `json:"record_input" doc:"what is typed is in the recording"`
	MaxSeconds     int64          `json:"max_seconds" doc:"from its start"`
	IdleSeconds    int64          `json:"idle_seconds" doc:"without a key pressed"`
	DetachSeconds  int64          `json:"detach_seconds" doc:"without its operator, or without its node"`
	CreatedAt      time.Time      `json:"created_at"`
	StatusAt       time.Time      `json:"status_at"`
	ClosedAt       time.Time      `json:"closed_at,omitzero"`
	Transport      string         `json:"transport,omitempty" enum:"quic,tcp" doc:"of the node's side, where this broker has it"`
	Filter         TerminalFilter `json:"filter" doc:"what the site lets through of the node's output"`
	EndRequestedBy string         `json:"end_requested_by,omitempty" doc:"who has asked for its end"`
}

// TerminalFilter says which sequences in a node's output may act on the operator's own terminal.
type TerminalFilter struct {
	Title     bool `json:"title"`
	Clipboard bool `json:"clipboard"`
}

// TerminalList is a page, newest first.
type TerminalList struct {
	Standing
	Items      []Terminal `json:"items"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// Recording describes the stored recording of a session.
type Recording struct {
	SessionID string    `json:"session_id"`
	NodeID    string    `json:"node_id"`
	Hostname  string    `json:"hostname"`
	Site      string    `json:"site,omitempty"`
	Username  string    `json:"username"`
	OpenedBy  string    `json:"opened_by"`
	Reason    string    `json:"reason,omitempty"`
	EndCode   string    `json:"end_code,omitempty"`
	BeganAt   time.Time `json:"began_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Bytes     uint64    `json:"bytes" doc:"of output"`
	Lost      uint64    `json:"lost" doc:"bytes of output that nobody has: the recording says where"`
	Blocks    int64     `json:"blocks"`
	Ended     bool      `json:"ended" doc:"its end is in the audit log; whether all of it is there, verify says"`
	DroppedAt time.Time `json:"dropped_at,omitzero" doc:"when it was forgotten, as it was older than the site keeps them"`
}

// RecordingList is a page, newest first.
type RecordingList struct {
	Standing
	Items      []Recording `json:"items"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

// RecordingReport is the result of a check of a whole recording.
type RecordingReport struct {
	SessionID string    `json:"session_id"`
	Complete  bool      `json:"complete" doc:"all that the terminal wrote is there, as it was written"`
	Intact    bool      `json:"intact" doc:"what is there is as it was written, whether or not it has an end"`
	Ended     bool      `json:"ended" doc:"it has the end that the audit log was told"`
	Blocks    int64     `json:"blocks" doc:"that were read, up to the first that does not fit"`
	Bytes     uint64    `json:"bytes" doc:"of output in these"`
	Until     time.Time `json:"until,omitzero"`
	Lost      uint64    `json:"lost" doc:"of these, bytes that nobody has: the recording says where"`
	What      string    `json:"what" doc:"what is wrong, and after which block; empty: nothing"`

	Head *RecordingHead `json:"head,omitempty" doc:"what the audit log was told of its end; none: nothing"`
}

// RecordingHead is the end of a recording as the audit log records it.
type RecordingHead struct {
	AuditID int64     `json:"audit_id" doc:"of the row that has it"`
	At      time.Time `json:"at"`
	Blocks  int64     `json:"blocks"`
	Bytes   uint64    `json:"bytes"`
	Hash    string    `json:"hash"`
}

// TerminalPolicy is a site's policy for operators' terminal sessions on its nodes.
type TerminalPolicy struct {
	Site      string              `json:"site,omitempty" doc:"empty: the nodes without a site"`
	Policy    TerminalPolicyRules `json:"policy"`
	Default   bool                `json:"default" doc:"nobody has set one"`
	UpdatedAt time.Time           `json:"updated_at,omitzero"`
	UpdatedBy string              `json:"updated_by,omitempty"`
}

// TerminalPolicyRules are the fields of a policy, with the defaults that apply where nobody has set
// one.
type TerminalPolicyRules struct {
	OpenRole           string `json:"open_role" enum:"operator,platform_admin" doc:"who may open a session; default operator"`
	AllowRoot          bool   `json:"allow_root" doc:"whether anybody may as root, or as a user of root's groups; default no"`
	RootRole           string `json:"root_role" enum:"operator,platform_admin" doc:"who may then; default platform_admin"`
	AnyUser            bool   `json:"any_user" doc:"whether an account will do that is no live allocation's, for platform_admin; default no"`
	MaxSeconds         int64  `json:"max_seconds" minimum:"60" maximum:"604800" doc:"default 28800"`
	IdleSeconds        int64  `json:"idle_seconds" minimum:"60" maximum:"604800" doc:"default 1800"`
	DetachSeconds      int64  `json:"detach_seconds" minimum:"1" maximum:"86400" doc:"default 900"`
	RecordInput        bool   `json:"record_input" doc:"whether what is typed is recorded, passwords with it; default no"`
	OnRecordingFailure string `json:"on_recording_failure" enum:"end" doc:"what becomes of a session that cannot be recorded"`
	RetentionDays      int64  `json:"retention_days" minimum:"1" maximum:"36500" doc:"after a session's end; default 365"`
	AllowTitle         bool   `json:"allow_title" doc:"whether a node's output may set the title of the operator's window; default no"`
	AllowClipboard     bool   `json:"allow_clipboard" doc:"whether it may write to his clipboard; default no"`
}

// TerminalPolicyPut replaces a site's policy.
type TerminalPolicyPut struct {
	Site   string              `json:"site,omitempty" maxLength:"63"`
	Policy TerminalPolicyRules `json:"policy"`
	Reason string              `json:"reason,omitempty" maxLength:"500"`
}
