package taskcatalog

import "time"

var nodeDrain = define[DrainParams, DrainResult](Type{
	Name: "node.drain", Version: 1,
	Summary: "take no new tenant, and end the sessions and processes of allocation users",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 10 * time.Minute,
	Example: `{"grace_seconds": 30}`,
})

// DrainParams is how patient the drain is.
type DrainParams struct {
	// GraceSeconds is the time between SIGTERM and SIGKILL.
	GraceSeconds int `json:"grace_seconds,omitempty" jsonschema:"minimum=0,maximum=300"`
	// Resume takes the node's mark back: users may be provisioned again.
	Resume bool `json:"resume,omitempty"`
}

// DrainResult is what was ended, and what would not end.
type DrainResult struct {
	Drained          bool           `json:"drained"`
	SessionsEnded    int            `json:"sessions_ended"`
	ProcessesStopped int            `json:"processes_stopped"`
	ProcessesLeft    []StuckProcess `json:"processes_left,omitempty"`
}

// StuckProcess is a process that outlived SIGKILL.
type StuckProcess struct {
	PID   int    `json:"pid"`
	UID   uint32 `json:"uid"`
	Name  string `json:"name"`
	State string `json:"state"` // as in /proc/PID/stat: D is uninterruptible sleep
}
