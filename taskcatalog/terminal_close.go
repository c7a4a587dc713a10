package taskcatalog

import "time"

var terminalClose = define[TerminalCloseParams, TerminalCloseResult](Type{
	Name: "terminal.close", Version: 1,
	Summary: "end a terminal session's process and all processes that it started",
	Class:   ClassMutating, Lane: LaneConcurrent, Deadline: 2 * time.Minute,
	ByBroker: "hostler terminal",
	Example:  `{"session_id":"ts-7k2m4q6s","code":"node_draining"}`,
})

// TerminalCloseParams name a session and the reason of its end.
type TerminalCloseParams struct {
	SessionID string `json:"session_id" jsonschema:"pattern=^ts-[a-z0-9]{8\\,40}$"`
	Code      Code   `json:"code" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,63}$"`
}

// TerminalCloseResult says whether the session existed.
type TerminalCloseResult struct {
	Existed bool `json:"existed"` // false: nothing of the session was left
}
