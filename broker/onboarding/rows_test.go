package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

// rows are the failures of an onboarding's stages that no other story covers.
var rows = []story{
	{name: "load_site_config: disabled, then cancelled", there: func(w *world) { w.region.PlugIn(w.box(1)); w.disable() }, acts: "- cancel", story: "load_site_config:failed", ends: chain.Cancelled, machine: noMachine},
	{name: "resolve_power_credentials: an override whose secret is gone", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.book.Overrides = []broker.PowerOverride{{ID: "o1", SiteID: w.site.ID, SelectorType: broker.ByHostname, SelectorValue: "c01", VaultPath: broker.PowerOverridePath(w.site.ID, "o1"), Status: broker.SiteActive}}
	}, story: "… resolve_power_credentials:failed", ends: chain.FailedRetryable, class: broker.SiteCapabilityMissing, machine: noMachine},
	{name: "create_or_find_in_maas: cancelled, and MAAS keeps its record", acts: "@commission_node cancel", story: "… commission_node", ends: chain.Cancelled, machine: maassim.New},
	{name: "create_or_find_in_maas: the region fails again and again", faults: faults(fault(maassim.Internal, "list", -1)), story: "… create_or_find_in_maas:failed", ends: chain.FailedRetryable, class: broker.UpstreamTransient, machine: noMachine},
	{name: "commission_node: power fails, then cancelled", faults: faults(fault(maassim.PowerFails, "", -1)), acts: "- cancel", story: "… commission_node:failed commission_node:failed commission_node:failed commission_node:failed", ends: chain.Cancelled, machine: maassim.New},
	{name: "commission_node: MAAS fails", faults: faults(fault(maassim.Internal, "commission", -1)), story: "… commission_node:failed commission_node:failed commission_node:failed commission_node:failed", ends: chain.FailedRetryable, class: broker.UpstreamTransient, machine: maassim.New},
	{name: "configure_storage: no BOSS disk, then cancelled", faults: faults(fault(maassim.NoBootCard, "", -1)), acts: "- cancel", story: "… configure_storage:failed", ends: chain.Cancelled, machine: maassim.Ready},
	{name: "apply_roce_phase2: no subnet can be made", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "eno8403", IPv4CIDR: "172.30.11.61/31"}}
	}, faults: faults(fault(maassim.Internal, "create_subnet", -1)), story: "… apply_roce_phase2:failed …ensure_pxe_interface_auto", ends: chain.Completed, machine: maassim.Deployed, deploys: 1, node: broker.Active},
	{name: "ensure_pxe_interface_auto: no link can be made", there: func(w *world) {
		w.unlink(w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(1), Status: maassim.Ready}))
	}, faults: faults(fault(maassim.Internal, "link_subnet", -1)), story: "… ensure_pxe_interface_auto:failed", ends: chain.FailedRetryable, class: broker.UpstreamTransient, machine: maassim.Ready},
	{name: "deploy_via_maas: refused again and again", faults: faults(fault(maassim.Internal, "deploy", -1)), story: "… deploy_via_maas:failed deploy_via_maas:failed deploy_via_maas:failed", ends: chain.FailedRetryable, class: broker.UpstreamTransient, machine: maassim.Allocated, node: broker.Enrolling},
	{name: "deploy_via_maas: refused again and again, then cancelled", faults: faults(fault(maassim.Unavailable, "deploy", -1)), acts: "- cancel", story: "… deploy_via_maas:failed deploy_via_maas:failed deploy_via_maas:failed deploy_via_maas:compensated render_cloud_init:compensated", ends: chain.Cancelled, machine: maassim.Ready, node: broker.Deleted},
	{name: "wait_for_deployed: longer than the policy", policy: func(q *broker.Policy) { q.DeployTimeoutSeconds = 120 }, story: "… wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy_timeout", machine: maassim.Deploying, deploys: 1, node: broker.Enrolling},
	{name: "wait_for_deployed: failed, then cancelled", faults: faults(fault(maassim.DeployFails, "")), acts: "- cancel", story: "… wait_for_deployed:failed classify_deploy_failure:failed deploy_via_maas:compensated render_cloud_init:compensated", ends: chain.Cancelled, machine: maassim.Ready, deploys: 1, node: broker.Deleted},
	{name: "classify_deploy_failure: no events to be had", faults: faults(fault(maassim.DeployFails, ""), fault(maassim.Internal, "events", -1)), story: "… wait_for_deployed:failed classify_deploy_failure:failed", ends: chain.FailedManual, class: broker.DeployCloudInitFailure, code: "failed_deploy", machine: maassim.FailedDeployment, deploys: 1, node: broker.Enrolling},
	{name: "recover_for_datasource_retry: release fails again and again", faults: faults(fault(maassim.DatasourceFails, ""), fault(maassim.ReleaseHangs, "", -1)), story: "… wait_for_deployed:failed classify_deploy_failure:succeeded recover_for_datasource_retry:failed", ends: chain.FailedManual, class: broker.UpstreamTransient, machine: maassim.Releasing, deploys: 1, node: broker.Enrolling},
	{name: "recover_for_datasource_retry: MAAS fails", faults: faults(fault(maassim.DatasourceFails, ""), fault(maassim.Internal, "release", -1)), story: "… wait_for_deployed:failed classify_deploy_failure:succeeded recover_for_datasource_retry:failed recover_for_datasource_retry:failed", ends: chain.FailedManual, class: broker.UpstreamTransient, machine: maassim.FailedDeployment, deploys: 1, node: broker.Enrolling},
	{name: "ensure_hardware_sync_configured: no token, then cancelled", faults: faults(fault(maassim.TokenNever, "")), acts: "- cancel", story: "… ensure_hardware_sync_configured:failed ensure_hardware_sync_configured:compensated", ends: chain.Cancelled, machine: maassim.Deployed, deploys: 1, node: broker.Quarantined},
	{name: "wait_for_agent_enrollment: no agent, then cancelled", there: func(w *world) {
		w.region.PlugIn(w.box(1))
		w.silent = true
	}, acts: "- cancel", story: "… wait_for_agent_enrollment:failed wait_for_agent_enrollment:failed ensure_hardware_sync_configured:compensated", ends: chain.Cancelled, machine: maassim.Deployed, deploys: 1, node: broker.Quarantined},
}

// Every failure of a stage ends as its row says, and a cancel leaves the machine and node of the
// row.
func TestRowsOfFailuresAndOfWhatACancelLeaves(t *testing.T) {
	for _, s := range rows {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(t)
		})
	}
}

// Some story ends with each failure class, and some story fails at each stage.
func TestEveryClassAndEveryStageHasAStory(t *testing.T) {
	classes, failed := map[broker.FailureClass]bool{}, map[string]bool{}
	for _, s := range append(rows, stories...) {
		classes[s.class] = true
		for _, word := range strings.Fields(s.story) {
			if stage, is := strings.CutSuffix(word, ":failed"); is {
				failed[stage] = true
			}
		}
	}
	for _, class := range []broker.FailureClass{
		broker.InputConfigError, broker.SiteCapabilityMissing, broker.UpstreamTransient, broker.BMCPowerFailure, broker.PXEDiscoveryFailure, broker.HardwareMismatch,
		broker.DeployCloudInitFailure, broker.HardwareSyncFailure, broker.AgentEnrollmentFailure, broker.StateAmbiguity,
	} {
		if !classes[class] {
			t.Errorf("no story ends with %s", class)
		}
	}
	for _, stage := range append(stages, "classify_deploy_failure", "recover_for_datasource_retry") {
		if !failed[stage] {
			t.Errorf("no story fails at %s", stage)
		}
	}
}

// A machine that a run has deployed and somebody has released is deployed once more by a rerun. A
// cancel then releases the machine, as it would the first time.
func TestACancelOfASecondDeploymentReleasesIt(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	w.region.PlugIn(b)
	w.silent = true
	id := w.start(1)
	w.settle(nil)
	w.call("POST", "machines/"+w.machine(b.Serial).SystemID+"/?op=release", "")
	w.clock.Advance(10 * time.Minute)
	w.act(id, chain.Rerun)
	cancelled := false
	w.settle(func() {
		if r := w.run(id); !cancelled && r.Stage == "wait_for_deployed" {
			cancelled = true
			w.act(id, chain.Cancel)
		}
	})
	r, m, n := w.run(id), w.machine(b.Serial), w.node("c01")
	if r.Status != chain.Cancelled || !cancelled || m.Status != maassim.Ready || n.Status != broker.Deleted || w.region.Happened(b.Serial, "deploy") != 2 {
		t.Errorf("%s; the machine is %s of %q; the node %s: %s", r.Status, m.Status, m.Owner, n.Status, w.story(id))
	}
}
