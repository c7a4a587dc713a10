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
	Username     string            `json:"username,omitempty" maxLength:"31" doc:"default: the user of the node's only allocation"`
	AllocationID string            `json:"allocation_id,omitempty" maxLength:"64" doc:"allocation of the user; default: the allocation that has this user"`
	Command      []string          `json:"command,omitempty" maxItems:"256" doc:"program and its arguments, run without a shell; left out: the user's login shell"`
	Term         string            `json:"term,omitempty" maxLength:"64"`
	Locale       map[string]string `json:"locale,omitempty" doc:"the operator's LANG and LC_ variables"`
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
	ProjectID    string `json:"project_id,omitempty" doc:"project whose member opened the session; left out: an operator opened the session"`
	Username     string `json:"username"`
	OpenedBy     string `json:"opened_by" doc:"name of the token that opened the session"`
	Reason       string `json:"reason,omitempty"`

	Status         string         `json:"status" enum:"opening,open,detached,closing,closed"`
	EndCode        string         `json:"end_code,omitempty" doc:"why the session ended"`
	ExitStatus     *int           `json:"exit_status,omitempty" doc:"exit status of the session's program"`
	RecordInput    bool           `json:"record_input" doc:"the recording contains what the operator types"`
	MaxSeconds     int64          `json:"max_seconds" doc:"longest duration of the session"`
	IdleSeconds    int64          `json:"idle_seconds" doc:"longest time without a key pressed"`
	DetachSeconds  int64          `json:"detach_seconds" doc:"longest time without the operator or without the node"`
	CreatedAt      time.Time      `json:"created_at"`
	StatusAt       time.Time      `json:"status_at"`
	ClosedAt       time.Time      `json:"closed_at,omitzero"`
	Transport      string         `json:"transport,omitempty" enum:"quic,tcp" doc:"transport of the node's connection, if the node is connected to this broker"`
	Filter         TerminalFilter `json:"filter" doc:"which parts of the node's output the site lets through"`
	EndRequestedBy string         `json:"end_requested_by,omitempty" doc:"who requested the end"`
}

// TerminalFilter says which sequences in a node's output may act on the operator's own terminal.
type TerminalFilter struct {
	Title     bool `json:"title"`
	Clipboard bool `json:"clipboard"`
}

// TerminalList is a page, newest first.
type TerminalList struct {
	Standing
	Items []Terminal `json:"items"`
	Next  string     `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// Recording describes the stored recording of a session.
type Recording struct {
	SessionID string    `json:"id"`
	NodeID    string    `json:"node_id"`
	Hostname  string    `json:"hostname"`
	Site      string    `json:"site,omitempty"`
	Username  string    `json:"username"`
	OpenedBy  string    `json:"opened_by"`
	Reason    string    `json:"reason,omitempty"`
	EndCode   string    `json:"end_code,omitempty"`
	BeganAt   time.Time `json:"began_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Bytes     uint64    `json:"bytes" doc:"bytes of output"`
	Lost      uint64    `json:"lost" doc:"bytes of output that were lost; the recording marks where"`
	Blocks    int64     `json:"blocks"`
	Ended     bool      `json:"ended" doc:"the end is in the audit log; hostler recording verify checks completeness"`
	DroppedAt time.Time `json:"dropped_at,omitzero" doc:"when the recording was deleted, at the end of the site's retention time"`
}

// RecordingList is a page, newest first.
type RecordingList struct {
	Standing
	Items []Recording `json:"items"`
	Next  string      `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// RecordingReport is the result of a check of a whole recording.
type RecordingReport struct {
	SessionID string    `json:"session_id"`
	Complete  bool      `json:"complete" doc:"all output of the terminal is in the recording, unchanged"`
	Intact    bool      `json:"intact" doc:"the stored output is unchanged, with or without an end"`
	Ended     bool      `json:"ended" doc:"the recording ends as the audit log says"`
	Blocks    int64     `json:"blocks" doc:"number of blocks that were read, up to the first invalid one"`
	Bytes     uint64    `json:"bytes" doc:"bytes of output in these blocks"`
	Until     time.Time `json:"until,omitzero"`
	Lost      uint64    `json:"lost" doc:"bytes in these blocks that were lost; the recording marks where"`
	What      string    `json:"what" doc:"what is wrong, and after which block; empty: nothing is wrong"`

	Head *RecordingHead `json:"head,omitempty" doc:"entry of the audit log about the recording's end; left out: no entry"`
}

// RecordingHead is the end of a recording as the audit log records it.
type RecordingHead struct {
	AuditID int64     `json:"audit_id" doc:"id of the row in the audit log"`
	At      time.Time `json:"at"`
	Blocks  int64     `json:"blocks"`
	Bytes   uint64    `json:"bytes"`
	Hash    string    `json:"hash"`
}

// TerminalPolicy is a site's policy for operators' terminal sessions on its nodes.
type TerminalPolicy struct {
	Site      string              `json:"site,omitempty" doc:"empty: the policy of nodes without a site"`
	Policy    TerminalPolicyRules `json:"policy"`
	Default   bool                `json:"default" doc:"the policy was never set"`
	UpdatedAt time.Time           `json:"updated_at,omitzero"`
	UpdatedBy string              `json:"updated_by,omitempty"`
}

// TerminalPolicyRules are the fields of a policy, with the defaults that apply where nobody has set
// one.
type TerminalPolicyRules struct {
	OpenRole           string `json:"open_role" enum:"operator,platform_admin" doc:"who may open a session; default operator"`
	AllowRoot          bool   `json:"allow_root" doc:"whether sessions as root, or as a member of a group that gives root, are allowed; default no"`
	RootRole           string `json:"root_role" enum:"operator,platform_admin" doc:"who may open a session with root; default platform_admin"`
	AnyUser            bool   `json:"any_user" doc:"whether a platform_admin may use accounts that belong to no live allocation; default no"`
	MaxSeconds         int64  `json:"max_seconds" minimum:"60" maximum:"604800" doc:"longest duration of a session; default 28800"`
	IdleSeconds        int64  `json:"idle_seconds" minimum:"60" maximum:"604800" doc:"longest time without a key pressed; default 1800"`
	DetachSeconds      int64  `json:"detach_seconds" minimum:"1" maximum:"86400" doc:"longest time without the operator or without the node; default 900"`
	RecordInput        bool   `json:"record_input" doc:"whether recordings contain what the operator types, including passwords; default no"`
	OnRecordingFailure string `json:"on_recording_failure" enum:"end" doc:"what happens to a session that cannot be recorded"`
	RetentionDays      int64  `json:"retention_days" minimum:"1" maximum:"36500" doc:"how long recordings are kept after a session's end; default 365"`
	AllowTitle         bool   `json:"allow_title" doc:"whether a node's output may set the title of the operator's window; default no"`
	AllowClipboard     bool   `json:"allow_clipboard" doc:"whether a node's output may write to the operator's clipboard; default no"`
}

// TerminalPolicyPut replaces a site's policy.
type TerminalPolicyPut struct {
	Site   string              `json:"site,omitempty" maxLength:"63"`
	Policy TerminalPolicyRules `json:"policy"`
	Reason string              `json:"reason,omitempty" maxLength:"500"`
}
