package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// story is a run of machine c01, whose BMC is that of box 1, described in one line. In story, … is
// the happy path up to the next named stage.
type story struct {
	name    string
	version string // empty: 3.6
	there   func(w *world)
	faults  []maassim.Fault
	policy  func(q *broker.Policy)
	// acts are an operator's: "wait_for_ready cancel" when the run waits in this stage, with @ when
	// it has just reached the stage, "- resume" when it has stopped; a word with ( acts on the
	// world.
	acts    string
	story   string
	ends    chain.Status
	class   broker.FailureClass
	code    string
	machine maassim.Status // of box 1
	deploys int
	node    broker.NodeStatus
}

func fault(kind maassim.Kind, op string, more ...int) maassim.Fault {
	f := maassim.Fault{Kind: kind, Op: op}
	if len(more) > 0 {
		f.Times = more[0]
	}
	return f
}

func faults(f ...maassim.Fault) []maassim.Fault { return f }

// known arranges box 1 as a machine that MAAS knows already.
func known(status maassim.Status, hostname, owner string) func(*world) {
	return func(w *world) {
		w.region.Arrange(maassim.Arranged{Hostname: hostname, Hardware: w.box(1), Status: status, Owner: owner, Series: "ubuntu/noble", Uncommissioned: status == maassim.New})
	}
}

// other arranges another machine that MAAS knows.
func other(n int, status maassim.Status, hostname, owner string) func(*world) {
	return func(w *world) {
		w.region.PlugIn(w.box(1))
		w.region.Arrange(maassim.Arranged{Hostname: hostname, Hardware: w.box(n), Status: status, Owner: owner, Series: "ubuntu/noble", Uncommissioned: status == maassim.New})
	}
}

// noRetry allows no retry, so a lost answer must not spend an attempt.
func noRetry(q *broker.Policy) { q.StageRetries["deploy_via_maas"] = 0 }

const noMachine = maassim.Status(-1)

var stories = []story{
	// Finding the machine.
	{name: "MAAS knows it as Ready", there: known(maassim.Ready, "c01", ""), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "MAAS discovered it by its BMC", there: known(maassim.New, "bold-koala", ""), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "hostname typo onto a deployed machine", there: other(2, maassim.Deployed, "c01", "admin"), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_ambiguous", machine: noMachine},
	{name: "a deployed machine", there: known(maassim.Deployed, "c01", "admin"), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Deployed},
	{name: "swapped BMC address", there: func(w *world) {
		w.region.Arrange(maassim.Arranged{Hostname: "c02", Hardware: w.box(1), Status: maassim.Ready})
		w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(2), Status: maassim.Ready})
	}, story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_ambiguous", machine: maassim.Ready},
	{name: "its BMC is that of a machine with another name", there: known(maassim.Ready, "c99", ""), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_ambiguous", machine: maassim.Ready},
	{name: "allocated by another user", there: known(maassim.Allocated, "c01", "bob"), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated},
	{name: "allocated by our user, and not by this run", there: known(maassim.Allocated, "c01", "admin"), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated},
	{name: "failed deployment of somebody", there: known(maassim.FailedDeployment, "c01", "admin"), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.FailedDeployment},
	{name: "broken", there: known(maassim.Broken, "c01", ""), story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Broken},
	{name: "bound to another node", there: func(w *world) {
		id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(1), Status: maassim.Ready})
		_, _ = w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c77", MAASSystemID: id})
	}, story: "… create_or_find_in_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Ready},
	{name: "a name that another node has", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		_, _ = w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c01", MAASSystemID: "zzzzzz"})
	}, story: "… render_cloud_init:failed", ends: chain.FailedRetryable, class: broker.InputConfigError, code: "hostname_taken", machine: maassim.Ready, node: broker.Enrolling},
	{name: "the answer to create is lost", faults: faults(fault(maassim.AnswerLost, "create")), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "create meets a busy region", faults: faults(fault(maassim.Conflicted, "create", 3)), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},

	// Commissioning.
	{name: "the machine runs, and nobody switches it off", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		_ = w.region.BootPXE(w.box(1).BMC.Address)
	}, acts: "@create_or_find_in_maas nodhcp(", story: "… commission_node:failed", ends: chain.FailedManual, class: broker.PXEDiscoveryFailure, code: "failed_discovery_timeout", machine: maassim.New},
	{name: "its power fails once", faults: faults(fault(maassim.PowerFails, "", 1)), story: "… commission_node:failed commission_node:succeeded …wait_for_ready", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "its power fails always", faults: faults(fault(maassim.PowerFails, "", -1)), story: "… commission_node:failed commission_node:failed commission_node:failed commission_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.New},
	{name: "the BMC takes another password", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.login(maassim.BMC{User: "root", Password: "wrong"})
	}, story: "… commission_node:failed commission_node:failed commission_node:failed commission_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.New},
	{name: "commissioning fails", faults: faults(fault(maassim.CommissioningFails, "")), story: "… wait_for_ready:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "failed_commission", machine: maassim.FailedCommissioning},
	{name: "commissioning fails, and is resumed", faults: faults(fault(maassim.CommissioningFails, "")), acts: "- resume", story: "… wait_for_ready:failed wait_for_ready:succeeded …configure_storage", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "it never boots", there: func(w *world) {
		b := w.box(1)
		b.NoPXE = true
		w.region.PlugIn(b)
	}, story: "… wait_for_ready:failed", ends: chain.FailedManual, class: broker.PXEDiscoveryFailure, code: "failed_commission", machine: maassim.FailedCommissioning},
	{name: "commissioning takes longer than the policy", policy: func(q *broker.Policy) { q.CommissionTimeoutSeconds = 120 }, story: "… wait_for_ready:failed", ends: chain.FailedManual, class: broker.PXEDiscoveryFailure, code: "failed_commission_timeout", machine: maassim.Commissioning},
	{name: "a test fails", faults: faults(fault(maassim.TestingFails, "")), story: "… wait_for_ready:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "failed_testing", machine: maassim.FailedTesting},
	{name: "a test fails, and is resumed", faults: faults(fault(maassim.TestingFails, "")), acts: "- resume", story: "… wait_for_ready:failed wait_for_ready:succeeded …configure_storage", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "a test fails, and once more", faults: faults(fault(maassim.TestingFails, "", 2)), acts: "- resume", story: "… wait_for_ready:failed wait_for_ready:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "failed_testing", machine: maassim.FailedTesting},
	{name: "deleted while it is commissioned", faults: faults(maassim.Fault{Kind: maassim.DeletedByHand, Op: "commission", After: time.Minute}), story: "… wait_for_ready:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_gone", machine: noMachine},
	{name: "deleted, and begun again", faults: faults(maassim.Fault{Kind: maassim.DeletedByHand, Op: "commission", After: time.Minute}), policy: func(q *broker.Policy) { q.DiscoveryPowerCycle = true }, acts: "- rerun", story: "… wait_for_ready:failed …", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "taken by somebody while it is prepared", faults: faults(fault(maassim.TakenByHand, "set_storage_layout")), story: "… ensure_pxe_interface_auto:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated},

	// Preparing the machine.
	{name: "no BOSS disk", faults: faults(fault(maassim.NoBootCard, "", -1)), story: "… configure_storage:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "boot_disk_missing", machine: maassim.Ready},
	{name: "no BOSS disk, mended and resumed", faults: faults(fault(maassim.NoBootCard, "", 1)), acts: "- resume", story: "… configure_storage:failed configure_storage:succeeded …apply_roce_phase2", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "no BOSS disk, resumed and not mended", faults: faults(fault(maassim.NoBootCard, "", -1)), acts: "- resume", story: "… configure_storage:failed configure_storage:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "boot_disk_missing", machine: maassim.Ready},
	{name: "two BOSS disks", faults: faults(fault(maassim.TwoBootCards, "")), story: "… configure_storage:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "boot_disk_ambiguous", machine: maassim.Ready},
	{name: "two BOSS disks, and a rule that picks one", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.sku.BootDisk.Pick = broker.PickFirst
	}, faults: faults(fault(maassim.TwoBootCards, "")), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "an interface of its SKU is not there", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.sku.NICs = append(w.sku.NICs, "ens1f0")
	}, story: "… configure_storage:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "nic_missing", machine: maassim.Ready},
	{name: "changes that are answered with 503 are looked at", faults: faults(fault(maassim.UnavailableAfter, "set_boot_disk"), fault(maassim.GatewayTimeout, "set_storage_layout"), fault(maassim.AnswerLost, "annotate")), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "an interface with a RoCE address is not there", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "enp28s0np0", IPv4CIDR: "172.30.9.61/31"}}
	}, story: "… apply_roce_phase2:failed …ensure_pxe_interface_auto", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "the interface that boots is miswired", there: func(w *world) {
		b := w.box(1)
		b.NICs[0].Network = 1
		w.region.PlugIn(b)
	}, story: "… ensure_pxe_interface_auto:failed", ends: chain.FailedManual, class: broker.HardwareMismatch, code: "pxe_interface_miswired", machine: maassim.Ready},

	// Deploying the machine.
	{name: "deploy: 503 before", faults: faults(fault(maassim.Unavailable, "deploy")), story: "… deploy_via_maas:failed deploy_via_maas:succeeded …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "deploy: 503 after", policy: noRetry, faults: faults(fault(maassim.UnavailableAfter, "deploy")), story: "… deploy_via_maas:skipped …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "deploy: 500 after", policy: noRetry, faults: faults(fault(maassim.InternalAfter, "deploy")), story: "… deploy_via_maas:skipped …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "deploy: 504 after", policy: noRetry, faults: faults(fault(maassim.GatewayTimeout, "deploy")), story: "… deploy_via_maas:skipped …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "deploy: the answer is lost", policy: noRetry, faults: faults(fault(maassim.AnswerLost, "deploy")), story: "… deploy_via_maas:skipped …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "allocate: the answer is lost", faults: faults(fault(maassim.AnswerLost, "allocate")), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "somebody allocates it first", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.region.Inject(maassim.Fault{Kind: maassim.TakenByHand, Op: "read", Machine: "c01", Skip: 11})
	}, story: "… deploy_via_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated, node: broker.Enrolling},
	{name: "somebody deploys it first, with the same key", acts: "@deploy_via_maas deploy(", story: "… deploy_via_maas:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Deploying, deploys: 1, node: broker.Enrolling},
	{name: "the image is not there", policy: func(q *broker.Policy) { q.DistroSeries = "gpuaas-none" }, story: "load_site_config:failed", ends: chain.FailedRetryable, class: broker.SiteCapabilityMissing, code: "site_not_ready", machine: noMachine},
	{name: "an image of the site's own", version: "3.4", policy: func(q *broker.Policy) { q.DistroSeries = "custom/golden" }, story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "the image is not there any more", acts: "@render_cloud_init noimage(", story: "… deploy_via_maas:failed", ends: chain.FailedRetryable, class: broker.SiteCapabilityMissing, code: "maas_refused", machine: maassim.Allocated, node: broker.Enrolling},
	{name: "the image's preseed does not render", faults: faults(fault(maassim.PreseedFails, "")), story: "… deploy_via_maas:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "preseed_not_rendered", machine: maassim.Allocated, node: broker.Enrolling},
	{name: "the image's preseed is mended", faults: faults(fault(maassim.PreseedFails, "")), acts: "- resume", story: "… deploy_via_maas:failed deploy_via_maas:succeeded …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "power fails at deploy, up to 3.5", version: "3.5", faults: faults(maassim.Fault{Kind: maassim.PowerFails, Skip: 1}), story: "… deploy_via_maas:failed deploy_via_maas:succeeded …wait_for_deployed", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "power fails at deploy, from 3.6", faults: faults(maassim.Fault{Kind: maassim.DeployDiesUnseen}), story: "… wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy", machine: maassim.FailedDeployment, deploys: 1, node: broker.Enrolling},
	{name: "the installation fails", faults: faults(fault(maassim.DeployFails, "")), story: "… wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy", machine: maassim.FailedDeployment, deploys: 1, node: broker.Enrolling},
	{name: "the installation fails, and the machine is begun clean", faults: faults(fault(maassim.DeployFails, "")), acts: "- restart_clean", story: "… wait_for_deployed:failed classify_deploy_failure:failed deploy_via_maas:compensated render_cloud_init:compensated … commission_node:succeeded …wait_for_ready", ends: chain.Completed, machine: maassim.Deployed, deploys: 2, node: broker.Active},
	{name: "no datasource, rescued once", faults: faults(fault(maassim.DatasourceFails, "")), story: "… wait_for_deployed:failed classify_deploy_failure:succeeded recover_for_datasource_retry:succeeded …deploy_via_maas", ends: chain.Completed, machine: maassim.Deployed, deploys: 2, node: broker.Active},
	{name: "no datasource, twice", faults: faults(fault(maassim.DatasourceFails, "", 2)), story: "… wait_for_deployed:failed classify_deploy_failure:succeeded recover_for_datasource_retry:succeeded deploy_via_maas:succeeded wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy_datasource", machine: maassim.FailedDeployment, deploys: 2, node: broker.Enrolling},
	{name: "no datasource, and a profile that allows no other try", policy: func(q *broker.Policy) { q.EnableDeployRetryOnDatasourceFailure = false }, faults: faults(fault(maassim.DatasourceFails, "")), story: "… wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy_datasource", machine: maassim.FailedDeployment, deploys: 1, node: broker.Enrolling},
	{name: "no datasource, and the release hangs once", faults: faults(fault(maassim.DatasourceFails, ""), fault(maassim.ReleaseHangs, "")), story: "… wait_for_deployed:failed classify_deploy_failure:succeeded recover_for_datasource_retry:succeeded …deploy_via_maas", ends: chain.Completed, machine: maassim.Deployed, deploys: 2, node: broker.Active},
	{name: "taken by somebody while it deploys", faults: faults(fault(maassim.TakenByHand, "deploy")), story: "… wait_for_deployed:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Deploying, deploys: 1, node: broker.Enrolling},
	{name: "taken by somebody while it deploys, then cancelled", faults: faults(fault(maassim.TakenByHand, "deploy")), acts: "- cancel", story: "… wait_for_deployed:failed deploy_via_maas:compensated render_cloud_init:compensated", ends: chain.Cancelled, machine: maassim.Deploying, deploys: 1, node: broker.Deleted},
	{name: "set Ready by hand while it deploys", faults: faults(maassim.Fault{Kind: maassim.ReadyByHand, Op: "deploy", After: time.Minute}), story: "… wait_for_deployed:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Ready, deploys: 1, node: broker.Enrolling},
	{name: "deleted while it deploys", faults: faults(maassim.Fault{Kind: maassim.DeletedByHand, Op: "deploy", After: time.Minute}), story: "… wait_for_deployed:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_gone", machine: noMachine, deploys: 1, node: broker.Enrolling},
	{name: "locked while it deploys", faults: faults(fault(maassim.LockedByHand, "deploy")), story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},

	// Cancelling.
	{name: "cancelled while it is commissioned", acts: "wait_for_ready cancel", story: "… wait_for_ready", ends: chain.Cancelled, machine: maassim.Commissioning},
	{name: "cancelled while it deploys", acts: "wait_for_deployed cancel", story: "… wait_for_deployed deploy_via_maas:compensated render_cloud_init:compensated", ends: chain.Cancelled, machine: maassim.Ready, deploys: 1, node: broker.Deleted},
	{name: "cancelled after it was deployed", acts: "wait_for_hardware_sync_healthy cancel", story: "… wait_for_hardware_sync_healthy ensure_hardware_sync_configured:compensated", ends: chain.Cancelled, machine: maassim.Deployed, deploys: 1, node: broker.Quarantined},
	{name: "begun clean after it was deployed", faults: faults(fault(maassim.NeverUp, "")), acts: "- restart_clean", story: "… wait_for_hardware_sync_healthy:failed ensure_hardware_sync_configured:compensated deploy_via_maas:compensated render_cloud_init:compensated …", ends: chain.Completed, machine: maassim.Deployed, deploys: 2, node: broker.Active},

	// Handover.
	{name: "MAAS never makes the machine's token", faults: faults(fault(maassim.TokenNever, "")), story: "… ensure_hardware_sync_configured:failed", ends: chain.FailedManual, class: broker.HardwareSyncFailure, code: "failed_hw_sync_seed", machine: maassim.Deployed, deploys: 1, node: broker.Enrolling},
	{name: "MAAS makes the machine's token late", faults: faults(fault(maassim.TokenNever, "")), acts: "ensure_hardware_sync_configured token(", story: "…", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "it never reports its hardware", faults: faults(fault(maassim.SyncStops, "")), story: "… wait_for_hardware_sync_healthy:failed", ends: chain.FailedManual, class: broker.HardwareSyncFailure, code: "failed_hw_sync_health", machine: maassim.Deployed, deploys: 1, node: broker.Enrolling},
	{name: "a profile that does without hardware sync", policy: func(q *broker.Policy) { q.RequireHWSync = false }, story: "… ensure_hardware_sync_configured:skipped wait_for_hardware_sync_healthy:skipped …wait_for_agent_enrollment", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "set Ready by hand when its agent has just come", policy: func(q *broker.Policy) { q.RequireHWSync = false }, acts: "wait_for_agent_enrollment ready(", story: "… ensure_hardware_sync_configured:skipped wait_for_hardware_sync_healthy:skipped wait_for_agent_enrollment:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Ready, deploys: 1, node: broker.Enrolling},
	{name: "its agent never comes", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.silent = true
	}, story: "… wait_for_agent_enrollment:failed wait_for_agent_enrollment:failed", ends: chain.FailedManual, class: broker.AgentEnrollmentFailure, code: "failed_enrollment", machine: maassim.Deployed, deploys: 1, node: broker.Enrolling},
	{name: "its agent comes when the run has given up", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.silent = true
	}, acts: "- agents( - resume", story: "… wait_for_agent_enrollment:failed wait_for_agent_enrollment:failed wait_for_agent_enrollment:succeeded", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(t)
		})
	}
}

func (s story) tell(t *testing.T) {
	w := newWorld(t, s.version)
	if s.there == nil {
		s.there = func(w *world) { w.region.PlugIn(w.box(1)) }
	}
	s.there(w)
	w.region.Inject(s.faults...)
	if s.policy != nil {
		s.policy(&w.profile.Policy)
	}
	box := maassim.Box(1)
	before := w.others(box.Serial)
	id := w.start(1)
	acts := strings.Fields(s.acts)
	perform := func(moment string) bool {
		if len(acts) == 0 || acts[0] != moment {
			return false
		}
		what := acts[1]
		acts = acts[2:]
		switch what {
		case "agents(":
			w.silent = false
		case "deploy(":
			w.call("POST", "machines/"+w.machine(box.Serial).SystemID+"/?op=deploy", "distro_series=noble")
		case "nodhcp(":
			w.region.SetDHCP(false)
		case "noimage(":
			w.region.SetImages()
		case "ready(":
			m := w.machine(box.Serial)
			w.book.Enroll(m.UserData)
			_ = w.region.ByHand(maassim.ReadyByHand, m.SystemID)
		case "token(":
			w.call("GET", "machines/"+w.machine(box.Serial).SystemID+"/?op=get_curtin_config", "") // this call renders the token
		default:
			w.act(id, chain.Action(what))
		}
		return true
	}
	watch := func() {
		switch r := w.run(id); {
		case r.Status != chain.Running:
		case r.Waiting != "":
			perform(r.Stage)
		default:
			perform("@" + r.Stage)
		}
	}
	for w.settle(watch); perform("-"); {
		w.settle(watch)
	}
	r := w.run(id)
	if got, want := w.story(id), s.want(); got != want {
		t.Errorf("story\n  %s\nwant\n  %s\n%+v", got, want, r.Failure)
	}
	if r.Status != s.ends || len(acts) > 0 {
		t.Errorf("ends %s (%+v), want %s; not done: %v", r.Status, r.Failure, s.ends, acts)
	}
	if f := r.Failure; s.class != "" && (f == nil || f.Class != chain.Class(s.class) || s.code != "" && f.Code != s.code || r.NextAction == "") {
		t.Errorf("fails with %+v, next %q; want %s, %s", f, r.NextAction, s.class, s.code)
	}
	m := w.machine(box.Serial)
	if m.SystemID == "" && s.machine != noMachine || m.SystemID != "" && m.Status != s.machine {
		t.Errorf("machine is %q %s, want %s", m.SystemID, m.Status, s.machine)
	}
	if n := w.region.Happened(box.Serial, "deploy"); n != s.deploys {
		t.Errorf("%d deployments, want %d", n, s.deploys)
	}
	if n := w.node("c01"); n.Status != s.node {
		t.Errorf("node is %q, want %q", n.Status, s.node)
	} else if has := w.book.Image(n.ID); n.Status == broker.Active && (has != m.OSystem+"/"+m.Series || m.Series == "") {
		t.Errorf("the image on record is %q, and MAAS has installed %s/%s", has, m.OSystem, m.Series)
	}
	for serial, n := range w.others(box.Serial) {
		if n != before[serial] {
			t.Errorf("machine %s, which is none of the run's, was changed: %+v", serial, w.region.History(serial))
		}
	}
}

// others counts the changes of each machine but one.
func (w *world) others(but string) map[string]int {
	out := map[string]int{}
	for _, m := range w.region.Machines() {
		if m.Serial != but {
			out[m.SystemID] = len(w.region.History(m.SystemID))
		}
	}
	return out
}

// want expands the story. "… a" is the happy path up to a, "…b" the path from b to the end; a stage
// without an outcome ends a path and is omitted.
func (s story) want() string { return wantOf(stages, s.story) }

func wantOf(list []string, story string) string {
	var words []string
	fields := strings.Fields(story)
	for i, word := range fields {
		from, is := strings.CutPrefix(word, "…")
		switch {
		case is:
			upTo := ""
			if i+1 < len(fields) {
				upTo, _, _ = strings.Cut(fields[i+1], ":")
			}
			path := happyOf(list, upTo)
			if from != "" {
				path = path[strings.Index(path, from+":"):]
			}
			words = append(words, path)
		case strings.Contains(word, ":"):
			words = append(words, word)
		}
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
