package taskcatalog

import "time"

var terminalOpen = define[TerminalOpenParams, TerminalOpenResult](Type{
	Name: "terminal.open", Version: 1,
	Summary: "start the process of a terminal session, or send an existing one to another relay",
	Class:   ClassMutating, Lane: LaneConcurrent, Deadline: 2 * time.Minute,
	ByBroker: "hostler terminal",
	Example:  `{"session_id":"ts-7k2m4q6s","relay":"broker.example:7442","username":"alice","max_seconds":28800,"detach_seconds":900}`,
})

// CredentialTerminalSession is the type of credential that terminal.open mints: the token with
// which the session's process joins its relay. The token admits one connection, with this node's
// certificate, for 30 s.
const CredentialTerminalSession = "terminal_session"

// TerminalOpenParams describe a session. If the session's process already runs, only Relay counts:
// the process connects to the relay, and everything else stays as at the start.
type TerminalOpenParams struct {
	SessionID    string `json:"session_id" jsonschema:"pattern=^ts-[a-z0-9]{8\\,40}$"`
	Relay        string `json:"relay" jsonschema:"maxLength=300,pattern=^[^\\s/@]+:[0-9]{1\\,5}$"` // HOST:PORT, on UDP and on TCP
	AllocationID string `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	Username     string `json:"username" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,30}$"`
	// Resume is for a session with a started process. If the process is gone, no new process is
	// started.
	Resume bool `json:"resume,omitempty"`
	// AllowRoot admits a user who is root, in root's group, or able to become root by another
	// group.
	AllowRoot bool `json:"allow_root,omitempty"`
	// Command is a program and its arguments, without a shell; empty: the user's login shell.
	Command       []string          `json:"command,omitempty" jsonschema:"maxItems=256"`
	Term          string            `json:"term,omitempty" jsonschema:"maxLength=64"`
	Locale        map[string]string `json:"locale,omitempty"` // LANG and LC_ of the operator
	MaxSeconds    int               `json:"max_seconds" jsonschema:"minimum=1,maximum=604800"`
	DetachSeconds int               `json:"detach_seconds" jsonschema:"minimum=1,maximum=86400"` // time that the process waits for a relay
}

// TerminalOpenResult names the unit that holds the session on the node.
type TerminalOpenResult struct {
	Unit    string `json:"unit"`    // of systemd
	Resumed bool   `json:"resumed"` // the process already ran
}
