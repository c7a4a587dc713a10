package taskcatalog

import "time"

var allocationRevokeUser = define[RevokeUserParams, RevokeUserResult](Type{
	Name: "allocation.revoke_user", Version: 1,
	Summary: "end an allocation's user: processes, sessions, jobs, IPC, files, home and account",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 30 * time.Minute,
	Example: `{"allocation_id":"a-1","username":"alice"}`,
})

// RevokeUserParams names the account and its allocation.
type RevokeUserParams struct {
	AllocationID string `json:"allocation_id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	Username     string `json:"username" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,30}$"`
	GraceSeconds int    `json:"grace_seconds,omitempty" jsonschema:"minimum=0,maximum=300"`
}

// RevokeUserResult counts the removed things. Each thing has a disposition in the evidence.
type RevokeUserResult struct {
	UID              uint32         `json:"uid"`
	Existed          bool           `json:"existed"`
	ProcessesStopped int            `json:"processes_stopped"`
	ProcessesLeft    []StuckProcess `json:"processes_left,omitempty"`
	FilesRemoved     int64          `json:"files_removed"`
	BytesRemoved     int64          `json:"bytes_removed"`
	IPCRemoved       int            `json:"ipc_removed"`
	JobsRemoved      int            `json:"jobs_removed"` // crontab, at jobs, user units, linger
}
