package taskcatalog

import "time"

var nodeValidateClean = define[ValidateCleanParams, ValidateCleanResult](Type{
	Name: "node.validate_clean", Version: 1,
	Summary: "look for everything a tenant may have left, and say clean, not_clean or inconclusive",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: 30 * time.Minute,
	BrokerFills: []string{"baseline", "expected_agent", "policy"},
	Example:     `{}`,
})

// ValidateCleanParams carries what the node is compared with. The node keeps
// no baseline of its own: a tenant with root could have changed it.
type ValidateCleanParams struct {
	// TakeBaseline answers with what is there now instead of judging it.
	TakeBaseline bool         `json:"take_baseline,omitempty"`
	Baseline     *Baseline    `json:"baseline,omitempty"`
	Policy       *CleanPolicy `json:"policy,omitempty"`
	// ExpectedAgent are the published packages of the version that the node says it
	// runs, one of which it must have as it is. None: nobody knows what is expected.
	ExpectedAgent []AgentPackage `json:"expected_agent,omitempty" jsonschema:"maxItems=32"`
}

// CleanPolicy lists what a site knows and accepts beside the baseline.
type CleanPolicy struct {
	KnownUsers     []string `json:"known_users,omitempty" jsonschema:"maxItems=256"`
	KnownUnits     []string `json:"known_units,omitempty" jsonschema:"maxItems=256"`
	KnownPorts     []string `json:"known_ports,omitempty" jsonschema:"maxItems=256"` // tcp/22
	KnownProcesses []string `json:"known_processes,omitempty" jsonschema:"maxItems=256"`
	Scratch        []string `json:"scratch,omitempty" jsonschema:"maxItems=64"`
	// GPU is what the site asks of a GPU scrub.
	GPU *GPUScrubPolicy `json:"gpu,omitempty"`
}

// ValidateCleanResult sums up the report in the evidence. Baseline is set
// where the task asked to take one.
type ValidateCleanResult struct {
	Verdict        Verdict   `json:"verdict,omitempty"`
	Findings       int       `json:"findings"`
	ChecksMade     int       `json:"checks_made"`
	ChecksNotMade  int       `json:"checks_not_made"`
	BaselineDigest string    `json:"baseline_digest,omitempty"`
	Baseline       *Baseline `json:"baseline,omitempty"`
}
