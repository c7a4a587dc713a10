package certificate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Clean is the content of a clean certificate: one turnover of one node. Issue fills in
// NotCovered, the exposures that follow from the environment, and Verdict.
type Clean struct {
	ID string `json:"certificate_id"`
	// Issuer is absent where the site names none, and in certificates older than the field.
	Issuer     *Issuer     `json:"issuer,omitempty"`
	Node       Node        `json:"node"`
	Run        Run         `json:"run"`
	Allocation *Allocation `json:"allocation,omitempty"` // the last; nil: nobody was on the machine
	// Earlier are the allocations before the last, since the machine was handed out clean.
	Earlier        []Allocation `json:"earlier_allocations,omitempty"`
	EarlierOmitted int          `json:"earlier_allocations_omitted,omitzero"` // dropped for lack of room
	Environment    Environment  `json:"environment"`
	Devices        []Device     `json:"devices"`
	// Attested are persons' statements about missing devices: no machine has signed any of them.
	// Absent where there is none.
	Attested   []Attested            `json:"attested,omitempty"`
	Validation Validation            `json:"validation"`
	Findings   []taskcatalog.Finding `json:"findings"`
	// FindingsOmitted counts the findings that were dropped for lack of room.
	FindingsOmitted int          `json:"findings_omitted,omitzero"`
	Downgrades      []Downgrade  `json:"downgrades"`
	Exposures       []Exposure   `json:"exposures"`
	Overrides       []Override   `json:"overrides"`
	NotCovered      []NotCovered `json:"not_covered"`
	Policy          Policy       `json:"policy"`
	Verdict         Verdict      `json:"verdict"`
	Software        []Software   `json:"software"`
	Tasks           []Task       `json:"tasks"`
	TasksOmitted    int          `json:"tasks_omitted,omitzero"` // dropped for lack of room; never a task that counts
	FinishedAt      time.Time    `json:"finished_at"`            // of the last inspection
	IssuedAt        time.Time    `json:"issued_at"`
	// ValidUntil is when the certificate becomes stale: a machine does not stay as it was found.
	ValidUntil time.Time `json:"valid_until"`
}

// Node is the machine with its names.
type Node struct {
	ID       string `json:"node_id"`
	Epoch    int64  `json:"node_epoch"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
	SKU      string `json:"sku,omitempty"`
	Serial   string `json:"serial,omitempty"` // of the chassis
	// IdentitySince is when the rotation or the enrolment that gave the node its key began.
	// Signatures by a key certified earlier do not count.
	IdentitySince time.Time `json:"identity_since"`
}

// Run is the turnover.
type Run struct {
	ID        string    `json:"run_id"`
	Mode      string    `json:"mode"` // soft_reset, reimage, full_decommission
	Reason    string    `json:"reason,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Allocation is a former user of the machine.
type Allocation struct {
	ID     string `json:"allocation_id"`
	Tenant string `json:"tenant,omitempty"`
	// HadRoot: the tenant may have falsified every report of the machine until the machine was
	// reimaged.
	HadRoot    bool      `json:"had_root"`
	Forced     bool      `json:"force_released"`
	ReleasedAt time.Time `json:"released_at,omitzero"`
}

// Environment is the environment of the inspection, as the broker established it.
type Environment string

// The environments, from the weakest to the strongest.
const (
	TenantOS   Environment = "tenant_os"
	FreshOS    Environment = "fresh_os"
	AttestedOS Environment = "attested_os"
)

var environments = map[Environment]int{TenantOS: 1, FreshOS: 2, AttestedOS: 3}

// Validation sums up the last inspection of the whole machine.
type Validation struct {
	TaskID        string              `json:"task_id,omitempty"`
	Verdict       taskcatalog.Verdict `json:"verdict"`
	ChecksMade    int                 `json:"checks_made"`
	ChecksNotMade []taskcatalog.Check `json:"checks_not_made"`
	// NotApplicable are the made checks without a subject on this machine.
	NotApplicable []taskcatalog.Check `json:"not_applicable,omitempty"`
}

// Downgrade is a weaker method than requested, with the acceptance.
type Downgrade struct {
	Device     string `json:"device"` // its serial or uuid
	Asked      Method `json:"asked"`
	Did        Method `json:"did"`
	Reason     string `json:"reason"`
	AcceptedBy string `json:"accepted_by,omitempty"` // an operator, or "policy"
	Because    string `json:"accepted_because,omitempty"`
}

// Exposure is knowledge or access that a tenant may still have.
type Exposure struct {
	Code    taskcatalog.Code `json:"code"`
	Message string           `json:"message"`
}

// The known exposures.
const (
	ExposureMAASToken taskcatalog.Code = "maas_token_not_rotated" // #nosec G101 -- a code, no token
	ExposureRootkit   taskcatalog.Code = "rootkit_not_excluded"
	// ExposureReportedOnly is a finding, or a missing check, that the policy lets pass.
	ExposureReportedOnly taskcatalog.Code = "reported_only"
	// ExposureAgent: only the agent's own report says which agent runs.
	ExposureAgent taskcatalog.Code = "agent_not_proven"
	// ExposureAcceptedGone is a part that left after a tenant came. An operator has accepted its
	// absence, and nobody attests its fate.
	ExposureAcceptedGone taskcatalog.Code = "device_accepted_gone"
	// ExposureBaseline is a baseline that a person accepted after a tenant came.
	ExposureBaseline taskcatalog.Code = "baseline_accepted"
)

var rootkit = Exposure{
	ExposureRootkit,
	"the machine was looked at from inside the operating system that the tenant used: whoever controls its kernel decides what it says, and a new key proves nothing against that",
}

// selfInspectionExposure accompanies every inspection from the tenant's own system with a check of
// the agent.
var selfInspectionExposure = Exposure{
	ExposureAgent,
	"that the agent found its own program and unit as they were published, or could not look, does not count: in the operating system that the tenant used it may be another agent that says so",
}

// Override is a stage that a person skipped.
type Override struct {
	Stage  string    `json:"stage"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// NotCovered is a part of the machine that the turnover did not inspect.
type NotCovered struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// NeverCovered is in every certificate.
var NeverCovered = []NotCovered{
	{"firmware", "of mainboard, GPUs, NICs and disks: it is compared with what the node reports, and neither erased nor measured"},
	{"bmc", "its users and settings are compared from inside the machine; its own storage is not looked at"},
	{"dpu", "a DPU runs an operating system of its own, which the agent does not see"},
	{"reserved_and_remapped_memory", "what a driver, a GPU or a disk keeps for itself, and cells taken out of use, cannot be written to"},
	{"system_ram", "it is cleared by a power cycle or by the next use, and not by us"},
}

// NeverCoveredOfDisks is in every certificate of a machine with disks. Certificates older than
// the rule stay valid without NeverCoveredOfDisks.
var NeverCoveredOfDisks = []NotCovered{
	{
		"hidden_disk_capacity",
		"what HPA or DCO keep off a disk, and NVMe capacity in no namespace, is not looked at: a disk's size is compared with the one that was recorded first",
	},
	{"nvme_boot_partitions", "they are in no namespace, and are neither erased nor compared"},
	{"tcg_opal", "locking ranges, shadow MBR, data store and owner of a drive that encrypts itself are not looked at"},
}

// Software is a program that took part in the turnover.
type Software struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Task is one task of the turnover. A task that counts carries its proof.
type Task struct {
	ID             string              `json:"task_id"`
	Type           string              `json:"type"`
	Version        int                 `json:"version"`
	Outcome        taskcatalog.Outcome `json:"outcome"`
	Digest         string              `json:"task_digest"` // of the task's envelope
	EvidenceDigest string              `json:"evidence_digest,omitempty"`
	Proof          *Proof              `json:"proof,omitempty"`
}

// Proof lets anybody check a task. It holds the texts as the node sent them.
type Proof struct {
	Certificate []byte `json:"certificate"` // the node's, DER, at the time of signing
	Evidence    string `json:"evidence"`    // DSSE envelope
	Result      string `json:"result,omitempty"`
}
