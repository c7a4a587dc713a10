package certificate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Clean is what a clean certificate states: one turnover of one node. Issue fills
// NotCovered, the exposures that follow from the environment, and Verdict.
type Clean struct {
	ID          string                `json:"certificate_id"`
	Node        Node                  `json:"node"`
	Run         Run                   `json:"run"`
	Allocation  *Allocation           `json:"allocation,omitempty"` // none: nobody was on it
	Environment Environment           `json:"environment"`
	Devices     []Device              `json:"devices"`
	Validation  Validation            `json:"validation"`
	Findings    []taskcatalog.Finding `json:"findings"`
	// FindingsOmitted are those for which there was no room.
	FindingsOmitted int          `json:"findings_omitted,omitzero"`
	Downgrades      []Downgrade  `json:"downgrades"`
	Exposures       []Exposure   `json:"exposures"`
	Overrides       []Override   `json:"overrides"`
	NotCovered      []NotCovered `json:"not_covered"`
	Policy          Policy       `json:"policy"`
	Verdict         Verdict      `json:"verdict"`
	Software        []Software   `json:"software"`
	Tasks           []Task       `json:"tasks"`
	FinishedAt      time.Time    `json:"finished_at"` // of the last thing that was looked at
	IssuedAt        time.Time    `json:"issued_at"`
	// ValidUntil is when the certificate has become stale: a machine does not stay
	// as it was found.
	ValidUntil time.Time `json:"valid_until"`
}

// Node is the machine and what it was called.
type Node struct {
	ID       string `json:"node_id"`
	Epoch    int64  `json:"node_epoch"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
	SKU      string `json:"sku,omitempty"`
	Serial   string `json:"serial,omitempty"` // of the chassis
	// IdentitySince is when the rotation or the enrolment began that gave the node
	// its key. What a key certified before that has signed does not count.
	IdentitySince time.Time `json:"identity_since"`
}

// Run is the turnover.
type Run struct {
	ID        string    `json:"run_id"`
	Mode      string    `json:"mode"` // soft_reset, reimage, full_decommission
	Reason    string    `json:"reason,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Allocation is who was on the machine before.
type Allocation struct {
	ID     string `json:"allocation_id"`
	Tenant string `json:"tenant,omitempty"`
	// HadRoot: whatever the machine said of itself until it was reimaged, the
	// tenant may have made it say.
	HadRoot    bool      `json:"had_root"`
	Forced     bool      `json:"force_released"`
	ReleasedAt time.Time `json:"released_at,omitzero"`
}

// Environment is in what the machine was looked at: the broker's finding.
type Environment string

// The environments, from the least to the most.
const (
	TenantOS   Environment = "tenant_os"
	FreshOS    Environment = "fresh_os"
	AttestedOS Environment = "attested_os"
)

var environments = map[Environment]int{TenantOS: 1, FreshOS: 2, AttestedOS: 3}

// Validation sums up the last look at the whole machine.
type Validation struct {
	TaskID        string              `json:"task_id,omitempty"`
	Verdict       taskcatalog.Verdict `json:"verdict"`
	ChecksMade    int                 `json:"checks_made"`
	ChecksNotMade []taskcatalog.Check `json:"checks_not_made"`
}

// Downgrade is a weaker method than was asked for, and who let it pass.
type Downgrade struct {
	Device     string `json:"device"` // its serial or uuid
	Asked      Method `json:"asked"`
	Did        Method `json:"did"`
	Reason     string `json:"reason"`
	AcceptedBy string `json:"accepted_by,omitempty"` // an operator, or "policy"
	Because    string `json:"accepted_because,omitempty"`
}

// Exposure is what a tenant may still know or have.
type Exposure struct {
	Code    taskcatalog.Code `json:"code"`
	Message string           `json:"message"`
}

// Exposures that are known.
const (
	ExposureMAASToken taskcatalog.Code = "maas_token_not_rotated" // #nosec G101 -- a code, no token
	ExposureRootkit   taskcatalog.Code = "rootkit_not_excluded"
)

var rootkit = Exposure{ExposureRootkit, "the machine was looked at from inside the operating system that the tenant used: whoever controls its kernel decides what it says, and a new key proves nothing against that"}

// Override is a stage that a person went on without.
type Override struct {
	Stage  string    `json:"stage"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// NotCovered is a part of the machine that the turnover did not look at.
type NotCovered struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// NeverCovered stands in every certificate.
var NeverCovered = []NotCovered{
	{"firmware", "of mainboard, GPUs, NICs and disks: it is compared with what the node reports, and neither erased nor measured"},
	{"bmc", "its users and settings are compared from inside the machine; its own storage is not looked at"},
	{"dpu", "a DPU runs an operating system of its own, which the agent does not see"},
	{"reserved_and_remapped_memory", "what a driver, a GPU or a disk keeps for itself, and cells taken out of use, cannot be written to"},
	{"system_ram", "it is cleared by a power cycle or by the next use, and not by us"},
}

// Software is a program that had a part in it.
type Software struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Task is one task of the turnover. One that counts carries its proof.
type Task struct {
	ID             string              `json:"task_id"`
	Type           string              `json:"type"`
	Version        int                 `json:"version"`
	Outcome        taskcatalog.Outcome `json:"outcome"`
	Digest         string              `json:"task_digest"` // of the task's envelope
	EvidenceDigest string              `json:"evidence_digest,omitempty"`
	Proof          *Proof              `json:"proof,omitempty"`
}

// Proof is what lets anybody check a task: texts as the node sent them.
type Proof struct {
	Certificate []byte `json:"certificate"` // the node's, DER, when it signed
	Evidence    string `json:"evidence"`    // DSSE envelope
	Result      string `json:"result,omitempty"`
}
