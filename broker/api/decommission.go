package api

import "time"

// DecommissionStart asks for a turnover of a node.
type DecommissionStart struct {
	Mode           string `json:"mode" enum:"soft_reset,reimage,full_decommission" doc:"soft_reset: the node is cleaned without a reinstallation; reimage: MAAS installs a fresh system; full_decommission: the machine leaves the fleet for good"`
	StorageCleanup string `json:"storage_cleanup,omitempty" enum:"none,local,weka,all" doc:"which storage is cleaned; default local"`
	Erase          string `json:"erase,omitempty" enum:"none,quick,secure" doc:"soft_reset: the agent erases all disks except the system's; other modes: MAAS erases all disks; default none"`
	Image          string `json:"image,omitempty" maxLength:"127" doc:"reimage: the image that MAAS installs, such as ubuntu/noble or custom/IMAGE; default: distro_series of the profile or site"`
	ProfileID      string `json:"profile_id,omitempty" maxLength:"63" doc:"the profile's id or name; default: the default profile of the node's site"`
	ForceRelease   bool   `json:"force_release,omitempty" doc:"end the allocations on the node, which takes the node away from its tenants"`
	// ForceAllocations are the allocations that the caller was shown.
	ForceAllocations []string `json:"force_allocations,omitzero" maxItems:"4000" doc:"with force_release, the only allocations that may be ended: any other allocation on the node refuses the request; default: the allocations on the node now"`
	// RemoveMAASRecord makes MAAS forget the machine of a full_decommission.
	RemoveMAASRecord bool   `json:"remove_maas_record,omitempty"`
	Reason           string `json:"reason" minLength:"1" maxLength:"500"`
}

// DecommissionBatch asks for the same turnover of many nodes, all at one site.
type DecommissionBatch struct {
	Nodes []string `json:"nodes" minItems:"1" maxItems:"1000" doc:"each an id, a hostname or site/hostname"`
	DecommissionStart
}

// DecommissionBatchStarted names the runs of a new batch. Either all runs begin or none does.
type DecommissionBatchStarted struct {
	BatchID       string                 `json:"batch_id"`
	Decommissions []DecommissionBatchRun `json:"decommissions"`
}

// DecommissionBatchRun is one run of a batch.
type DecommissionBatchRun struct {
	NodeID         string `json:"node_id"`
	Hostname       string `json:"hostname"`
	DecommissionID string `json:"decommission_id"`
}

// DecommissionBatchPlan says what a batch would do, and to which tenants. A plan begins nothing.
type DecommissionBatchPlan struct {
	Site            string         `json:"site,omitempty"`
	Mode            string         `json:"mode"`
	Parallel        int            `json:"parallel" doc:"how many runs of the batch proceed at a time, counted with other batches at the site"`
	StopAfter       int            `json:"stop_after" doc:"number of failures in a row, at one stage and of one class, after which the batch starts no more runs; 0: never"`
	Nodes           []NodeTenants  `json:"nodes"`
	Stages          []PlannedStage `json:"stages"`
	ExpectedSeconds int64          `json:"expected_seconds" doc:"expected duration for one node"`
	Refused         *Refusal       `json:"refused,omitempty" doc:"why the batch would be refused: tenants are on its nodes"`
}

// NodeTenants is a node with its live allocations and the last tenant.
type NodeTenants struct {
	Node Node       `json:"node"`
	Live []Occupant `json:"live" doc:"allocations on the node; without force_release they refuse the node's turnover"`
	Last *Occupant  `json:"last,omitempty" doc:"the last allocation that ended on the node, certified since or not"`
	// LastCertified says that the node received a clean certificate after the last allocation.
	LastCertified bool `json:"last_certified,omitempty"`
}

// Refusal is the answer that a start would get now.
type Refusal struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// DecommissionBatchRetried is the result of a batch's retry.
type DecommissionBatchRetried struct {
	BatchID   string                `json:"batch_id"`
	Continued bool                  `json:"continued" doc:"the batch had stopped, and starts runs again"`
	Retried   []Decommission        `json:"retried" doc:"failed runs that are retried; other runs do not change"`
	Refused   []DecommissionRefusal `json:"refused,omitempty"`
}

// DecommissionRefusal says why the retry left one run of a batch as it is.
type DecommissionRefusal struct {
	DecommissionID string `json:"decommission_id"`
	Code           string `json:"code"`
	Detail         string `json:"detail"`
}

// StorageCleanupStart asks for a cleanup and a check of a node's storage.
type StorageCleanupStart struct {
	Scope        string `json:"scope" enum:"local,weka,all"`
	ProfileID    string `json:"profile_id,omitempty" maxLength:"63"`
	ForceRelease bool   `json:"force_release,omitempty" doc:"end the allocations on the node, which takes the node away from its tenants"`
	// ForceAllocations are the allocations that the caller was shown.
	ForceAllocations []string `json:"force_allocations,omitzero" maxItems:"4000" doc:"with force_release, the only allocations that may be ended: any other allocation on the node refuses the request; default: the allocations on the node now"`
	Reason           string   `json:"reason" minLength:"1" maxLength:"500"`
}

// DowngradeAccept is an operator's acceptance of a disk on which less was done than was asked for.
type DowngradeAccept struct {
	Device string `json:"device" minLength:"1" maxLength:"128" doc:"id of the device, as in the downgrade on the run's last certificate"`
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}

// DowngradeAccepted is the acceptance on record. The run's next certificate carries the acceptance.
type DowngradeAccepted struct {
	DecommissionID string    `json:"decommission_id"`
	NodeID         string    `json:"node_id"`
	CertificateID  string    `json:"certificate_id" doc:"certificate that lists the downgrade"`
	Device         string    `json:"device"`
	Asked          string    `json:"asked" doc:"method that was requested"`
	Did            string    `json:"did" doc:"method that was applied; the acceptance covers no other method"`
	AcceptedBy     string    `json:"accepted_by"`
	Reason         string    `json:"reason"`
	AcceptedAt     time.Time `json:"accepted_at"`
}

// Decommission is a run that turns a node over.
type Decommission struct {
	DecommissionID string `json:"id"`
	NodeID         string `json:"node_id"`
	Hostname       string `json:"hostname"`
	Site           string `json:"site,omitempty"`
	BatchID        string `json:"batch_id,omitempty"`
	Mode           string `json:"mode" doc:"soft_reset, reimage, full_decommission or storage_cleanup"`
	StorageCleanup string `json:"storage_cleanup"`
	Erase          string `json:"erase"`
	ModeBecause    string `json:"mode_because,omitempty" doc:"why the site's policy asked for a reimage, of a turnover that began by itself"`
	Image          string `json:"image" doc:"image that was asked for; empty: that of the profile or site"`
	ForceRelease   bool   `json:"force_release,omitempty"`
	Reason         string `json:"reason"`
	RequestedBy    string `json:"requested_by"`
	Follows        string `json:"follows,omitempty" doc:"the soft reset that this reimage replaces, because the node's agent did not answer (reimage_when_silent)"`

	RunState

	CertificateID string   `json:"certificate_id,omitempty" doc:"certificate of the last attempt"`
	MeetsPolicy   bool     `json:"meets_policy" doc:"whether the certificate meets the policy"`
	Shortfalls    []string `json:"shortfalls,omitempty" doc:"codes of the policy's requirements that the certificate does not meet"`
	Tasks         []string `json:"tasks,omitempty" doc:"ids of the tasks on the node, in order"`
	Warnings      []string `json:"warnings,omitempty"`

	RunTimes
}

// DecommissionDetail is a run with its stages and its history.
type DecommissionDetail struct {
	Decommission
	HandingOver bool       `json:"handing_over,omitempty" doc:"a reimage is to replace this soft reset, whose agent did not answer, unless the site's limit on such reimages is reached (reimage_when_silent)"`
	FollowedBy  string     `json:"followed_by,omitempty" doc:"the reimage that replaced this soft reset"`
	Stages      []RunStage `json:"stages" doc:"the stages in order"`
	Events      []RunEvent `json:"events" doc:"the newest 500 events, oldest first"`
}

// DecommissionList is one page of runs, in the order of their start.
type DecommissionList struct {
	Frozen []Hold         `json:"frozen,omitempty" doc:"freezes in force"`
	Batch  *BatchState    `json:"batch,omitempty" doc:"only if batch_id is given"`
	Items  []Decommission `json:"items"`
	Next   string         `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// DecommissionPlan says what a turnover would do, and to which tenants. A plan begins nothing.
type DecommissionPlan struct {
	NodeTenants
	Mode            string         `json:"mode"`
	Stages          []PlannedStage `json:"stages"`
	ExpectedSeconds int64          `json:"expected_seconds"`
	Refused         *Refusal       `json:"refused,omitempty" doc:"why the turnover would be refused: tenants are on the node"`
}

// Occupant is a user of a tenant on a node, as known from tasks.
type Occupant struct {
	AllocationID string    `json:"allocation_id"`
	Tenant       string    `json:"tenant,omitempty"`
	Username     string    `json:"username"`
	HadRoot      bool      `json:"had_root"`
	Since        time.Time `json:"since"`
	EndedAt      time.Time `json:"ended_at,omitzero"`
}

// CleanCertificate is a clean certificate on record.
type CleanCertificate struct {
	CertificateID  string    `json:"id"`
	DecommissionID string    `json:"decommission_id"`
	NodeID         string    `json:"node_id"`
	NodeEpoch      int64     `json:"node_epoch"`
	Site           string    `json:"site,omitempty"`
	Mode           string    `json:"mode"`
	AllocationID   string    `json:"allocation_id,omitempty"`
	MeetsPolicy    bool      `json:"meets_policy"`
	Shortfalls     []string  `json:"shortfalls,omitempty"`
	Digest         string    `json:"digest" doc:"digest of the file"`
	IssuedAt       time.Time `json:"issued_at"`
	ValidUntil     time.Time `json:"valid_until"`
	File           string    `json:"file,omitempty" doc:"the certificate as it was signed; input of hostler certificate verify; left out of lists"`
}

// CleanCertificateList is one page, newest first.
type CleanCertificateList struct {
	Standing
	Items []CleanCertificate `json:"items"`
	Next  string             `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
