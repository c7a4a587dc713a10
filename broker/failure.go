package broker

// FailureClass is the kind of failure that stopped or delayed a run (architecture, chapter 6).
type FailureClass string

// The classes of onboarding.
const (
	InputConfigError       FailureClass = "input_config_error"
	SiteCapabilityMissing  FailureClass = "site_capability_missing"
	UpstreamTransient      FailureClass = "upstream_transient"
	BMCPowerFailure        FailureClass = "bmc_power_failure"
	PXEDiscoveryFailure    FailureClass = "pxe_discovery_failure"
	HardwareMismatch       FailureClass = "hardware_mismatch"
	DeployCloudInitFailure FailureClass = "deploy_cloud_init_failure"
	PostDeployConnectivity FailureClass = "post_deploy_connectivity_failure"
	HardwareSyncFailure    FailureClass = "hardware_sync_failure"
	AgentEnrollmentFailure FailureClass = "agent_enrollment_failure"
	StateAmbiguity         FailureClass = "state_ambiguity"
)

// The classes of a turnover.
const (
	GPUHolderPresent     FailureClass = "gpu_holder_present"
	GPUScrubIncomplete   FailureClass = "gpu_scrub_incomplete"
	GPUResetRefused      FailureClass = "gpu_reset_refused"
	GPUResetUnproven     FailureClass = "gpu_reset_unproven"
	GPUHardwareFault     FailureClass = "gpu_hw_fault"
	DriverScrubDisabled  FailureClass = "driver_scrub_disabled"
	EvidenceUntrusted    FailureClass = "evidence_untrusted"
	EraseDowngraded      FailureClass = "erase_downgraded"
	DiskEraseUnsupported FailureClass = "disk_erase_unsupported"

	// The architecture does not define these three: the agent does not answer, tenant data is
	// still on the node, or all work was done and does not meet the policy.
	AgentSilent  FailureClass = "agent_silent"
	ResidueFound FailureClass = "residue_found"
	PolicyNotMet FailureClass = "policy_not_met"
)

// AgentUpdateFailed is the class of an agent run that did not reach its goal: the new agent was
// rolled back, was refused, or reports worse health than the old agent.
const AgentUpdateFailed FailureClass = "agent_update_failed"

// RolloutPaused is the class of a rollout that stopped itself: too many nodes failed, or the
// release may no longer be delivered.
const RolloutPaused FailureClass = "rollout_paused"

// AllocationUnmet is the class of a run that could not give an allocation's nodes to the tenant, or
// could not get them back with proof. The code says why.
const AllocationUnmet FailureClass = "allocation_unmet"

// Diagnosed reports whether diagnostics of the node are collected when a run fails with this
// class. The cause is visible only on the node, and may be gone before a person looks.
func (c FailureClass) Diagnosed() bool {
	return c == GPUHardwareFault || c == AgentEnrollmentFailure
}

// FailureHandling says how a class of failures is handled.
type FailureHandling struct {
	Class  FailureClass
	Retry  bool   // automatically, within the stage's policy
	Rescue bool   // then by the stage's rescue, if it has one
	Person bool   // then failed_manual_intervention; else failed_retryable
	Mend   string // what a person must check or repair
	Then   string // the following action on the run, in the words of the command line; empty: none
}

// NextAction is the advice to the operator.
func (h FailureHandling) NextAction() string { return h.next(h.Then) }

// UndoAction is the advice after a failed undo: such a run can only be retried.
func (h FailureHandling) UndoAction() string { return h.next("retry") }

func (h FailureHandling) next(then string) string {
	if then == "" {
		return h.Mend
	}
	return h.Mend + ", then " + then
}

// FailureHandlings is the table of all classes.
var FailureHandlings = []FailureHandling{
	{InputConfigError, false, false, false, "correct the input or the site's settings", "rerun; or cancel and start again"},
	{SiteCapabilityMissing, false, false, false, "add what the site lacks (hostler site probe SITE)", "resume"},
	{UpstreamTransient, true, false, false, "check that MAAS, the secret store and the network answer", "resume"},
	{BMCPowerFailure, true, true, true, "check the BMC's address, credentials and power", "resume"},
	{PXEDiscoveryFailure, true, true, true, "check the machine's boot order, cabling and PXE VLAN", "resume"},
	{HardwareMismatch, false, false, true, "compare the machine with its SKU, correct either", "resume"},
	{DeployCloudInitFailure, false, true, true, "read the machine's console and MAAS's events", "restart-clean"},
	{PostDeployConnectivity, true, true, true, "check the machine's network and SSH", "resume"},
	{HardwareSyncFailure, true, true, true, "check MAAS's hardware sync on the machine", "resume"},
	{AgentEnrollmentFailure, true, true, true, "check that the machine reaches the broker and read its first-boot log", "resume"},
	{StateAmbiguity, false, false, true, "find out who owns the machine and what changed it", "adopt, rerun or cancel"},

	{GPUHolderPresent, true, false, true, "find the process that holds the GPU (hostler task show ID), end it", "retry"},
	{GPUScrubIncomplete, true, false, true, "read the scrub's findings", "retry, or reimage the node"},
	{GPUResetRefused, true, false, true, "find out what prevents the GPU's reset", "retry; a power cycle also resets the GPU"},
	{GPUResetUnproven, true, false, true, "power-cycle the node", "retry"},
	{GPUHardwareFault, false, false, true, "have the GPU checked or replaced; the node stays out of use", ""},
	{DriverScrubDisabled, false, false, true, "enable the driver's scrubbing in the node's settings", "retry"},
	{EvidenceUntrusted, false, false, true, "find out why the node's evidence does not verify; reimage the node before it is used", ""},
	{EraseDowngraded, false, false, true, "decide whether the weaker erase is enough for these disks, or replace them", ""},
	{AgentSilent, false, false, true, "check that the node is up and reaches the broker", "retry; or reimage the node"},
	{ResidueFound, true, false, true, "read the findings (hostler task show ID), remove their causes", "retry; or reimage the node"},
	{
		PolicyNotMet, false, false, true, "read which requirements the certificate misses, meet them or change the site's policy",
		"cancel, and start another turnover",
	},
	{
		AgentUpdateFailed, false, false, false,
		"read the reason (hostler node agent-lifecycle NODE; hostler task show ID), repair the cause or publish another release",
		"retry; or cancel, and start another",
	},
	{RolloutPaused, false, false, true, "read which nodes failed, with reasons (hostler rollout status ID)", "resume, or abort"},
	{AllocationUnmet, true, true, true, "read why (hostler run show ID), repair the cause", "retry"},
	{DiskEraseUnsupported, false, false, true, "erase the disks by other means or replace them", "retry"},
}
