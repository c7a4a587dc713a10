package broker

import (
	"slices"
	"strings"
)

// RunKind is a kind of run: its name for people, and the rules that hold while such a run is
// under way. The stages belong to the feature's own package.
//
// A new kind is a new row of RunKinds, and its chain in the server's list of chains. With these two
// it has events, a place in the node's timeline, metrics, /runs of the API and "hostler run".
type RunKind struct {
	// Name is the kind of the runs, or the common part of their kinds before a slash:
	// node.decommission covers node.decommission/reimage.
	Name string
	// Noun is the command for the kind's runs: "hostler NOUN show ID". The noun "run" serves all
	// kinds. Empty: this release does not know the kind.
	Noun string
	// TurnsOver: such a run turns its node over. While the run holds the node, only the run's own
	// end leads to active.
	TurnsOver bool
	// TerminalsStay: an operator's terminal on the node stays open while such a run moves.
	TerminalsStay bool
	// OwnActions: such runs take other actions than the seven of the engine, under their own noun.
	OwnActions bool
	// Retried lists the kind's own stages that a policy's stage_retries may name. A borrowed
	// stage, such as a reimage's from onboarding, is listed in the row of its own kind.
	Retried []string
}

// The kinds of runs.
const (
	OnboardingKind = "node.onboarding"
	AdoptionKind   = "node.adoption"
	TurnoverKinds  = "node.decommission" // the mode follows
	AgentKinds     = "agent.upgrade"     // the list follows
	ProvisionKind  = "allocation.provision"
	ReleaseKind    = "allocation.release"
	RolloutKind    = "agent.rollout"
	OperationKind  = "operation.execution"
)

// NoSite stands for the site of a run whose nodes have none, or are of several. No site has this
// name.
const NoSite = "-"

// RunKinds has a row for each kind of run.
var RunKinds = []RunKind{
	{Name: OnboardingKind, Noun: "onboarding", Retried: []string{
		"apply_roce_phase2", "commission_node", "configure_storage", "create_or_find_in_maas", "deploy_via_maas",
		"ensure_pxe_interface_auto",
		"load_site_config", "recover_for_datasource_retry", "render_cloud_init", "resolve_power_credentials", "wait_for_agent_enrollment",
	}},
	{Name: AdoptionKind, Noun: "onboarding", Retried: []string{"bind_node", "compare_with_sku", "find_in_maas"}},
	{Name: TurnoverKinds, Noun: "decommission", TurnsOver: true, Retried: []string{
		"cleanup_secrets", "cleanup_storage", "disable_node", "drain_node", "enable_node", "erase_local_disks", "force_release_allocations",
		"issue_clean_certificate", "power_off_maas_node", "release_maas_node", "remove_gpuaas_node_record", "remove_maas_record",
		"retire_gpuaas_node", "rotate_node_identity", "scrub_gpu", "validate_clean_node",
	}},
	{Name: ProvisionKind, Noun: "run", TerminalsStay: true},
	{Name: ReleaseKind, Noun: "run", TerminalsStay: true},
	{Name: AgentKinds, Noun: "node agent-lifecycle", TerminalsStay: true},
	{Name: RolloutKind, Noun: "rollout", OwnActions: true},
	{Name: OperationKind, Noun: "run", TerminalsStay: true},
}

// RunKindOf returns the row of a run's kind. A kind without a row belongs to another release of
// the broker and gets a row without exceptions.
func RunKindOf(kind string) RunKind {
	for _, k := range RunKinds {
		if kind == k.Name || strings.HasPrefix(kind, k.Name+"/") {
			return k
		}
	}
	return RunKind{Name: kind}
}

// Command is the command line for a run or a batch of the kind, such as "show r-1". This release
// has no command for an unknown kind.
func (k RunKind) Command(rest string) string {
	if k.Noun == "" {
		return "with a release of hostler that supports runs of kind " + k.Name
	}
	return "hostler " + k.Noun + " " + rest
}

// RetriedStages lists the stages of all kinds that stage_retries may name, sorted.
func RetriedStages() []string {
	var all []string
	for _, k := range RunKinds {
		all = append(all, k.Retried...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
