package taskcatalog

import "time"

var nodeValidateClean = define[ValidateCleanParams, ValidateCleanResult](Type{
	Name: "node.validate_clean", Version: 1,
	Summary: "look for everything that a tenant may have left, and report clean, not_clean or inconclusive",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: 30 * time.Minute,
	BrokerFills: []string{"baseline", "expected_agent", "policy"},
	Example:     `{}`,
})

// ValidateCleanParams carries the baseline to compare with. The node keeps no baseline of its own:
// a tenant with root could have changed it.
type ValidateCleanParams struct {
	// TakeBaseline returns the current state as a baseline, without judging the state.
	TakeBaseline bool         `json:"take_baseline,omitempty"`
	Baseline     *Baseline    `json:"baseline,omitempty"`
	Policy       *CleanPolicy `json:"policy,omitempty"`
	// ExpectedAgent are the published packages of the version that the node reports. The node must
	// match one of the packages exactly. Empty: the expected packages are unknown.
	ExpectedAgent []AgentPackage `json:"expected_agent,omitempty" jsonschema:"maxItems=32"`
}

// CleanPolicy lists what a site accepts in addition to the baseline.
type CleanPolicy struct {
	KnownUsers     []string `json:"known_users,omitempty" jsonschema:"maxItems=256"`
	KnownUnits     []string `json:"known_units,omitempty" jsonschema:"maxItems=256"`
	KnownPorts     []string `json:"known_ports,omitempty" jsonschema:"maxItems=256"` // tcp/22
	KnownProcesses []string `json:"known_processes,omitempty" jsonschema:"maxItems=256"`
	Scratch        []string `json:"scratch,omitempty" jsonschema:"maxItems=64"`
	// GPU is the site's policy for GPU scrubs.
	GPU *GPUScrubPolicy `json:"gpu,omitempty"`
}

// ValidateCleanResult summarises the report in the evidence. Baseline is set if the task took a
// baseline.
type ValidateCleanResult struct {
	Verdict        Verdict   `json:"verdict,omitempty"`
	Findings       int       `json:"findings"`
	ChecksMade     int       `json:"checks_made"`
	ChecksNotMade  int       `json:"checks_not_made"`
	BaselineDigest string    `json:"baseline_digest,omitempty"`
	Baseline       *Baseline `json:"baseline,omitempty"`
}
