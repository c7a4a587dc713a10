package taskcatalog

import "time"

var nodeUninstall = define[UninstallParams, UninstallResult](Type{
	Name: "node.uninstall", Version: 1,
	Summary: "remove the agent, its identity and its state from the node, after reporting",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 5 * time.Minute,
	Example: `{}`,
})

// UninstallParams names the allocation that may still exist.
type UninstallParams struct {
	AllocationID string `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
}

// UninstallResult lists what the agent removes once the broker has accepted this result.
type UninstallResult struct {
	Removes []string `json:"removes"`
}
