package onboarding

import (
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/sshseed"
)

// Time limits of stages for which the policy has no number.
const (
	records   = 15 * time.Minute // changes records of MAAS's or our own
	switching = 30 * time.Minute // waits for a BMC and for MAAS's own patience
)

// defaultRetries applies to stages that the policy does not name.
const defaultRetries = 3

// retries returns how often a stage is retried automatically, by the policy.
func retries(stage string) func(Onboarding) chain.Retry {
	return func(s Onboarding) chain.Retry {
		n, named := s.Policy.StageRetries[stage]
		if !named {
			n = defaultRetries
		}
		return chain.Retry{Attempts: n + 1, First: time.Duration(s.Policy.RetryBackoffSeconds) * time.Second, Max: 5 * time.Minute}
	}
}

func within(d time.Duration) func(Onboarding) chain.Limit {
	return func(Onboarding) chain.Limit { return chain.Limit{After: d} }
}

// releaseLimit excludes the time in which MAAS erases the disks of a released machine: this time
// has no bound where a region erases on release.
func releaseLimit(s Onboarding) chain.Limit { return chain.Limit{After: switching + s.Erased} }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func discoveryLimit(s Onboarding) chain.Limit {
	return chain.Limit{After: seconds(s.Policy.DiscoveryTimeoutSeconds), Class: pxeDiscovery, Code: "failed_discovery_timeout"}
}

func commissionLimit(s Onboarding) chain.Limit {
	return chain.Limit{After: seconds(s.Policy.CommissionTimeoutSeconds), Class: pxeDiscovery, Code: "failed_commission_timeout"}
}

func deployLimit(s Onboarding) chain.Limit {
	return chain.Limit{After: seconds(s.Policy.DeployTimeoutSeconds), Class: deployFailure, Code: "failed_deploy_timeout"}
}

// classifyLimit is short: a failure that cannot be classified soon is left to a person.
func classifyLimit(Onboarding) chain.Limit {
	return chain.Limit{After: 5 * time.Minute, Class: deployFailure, Code: "failed_deploy"}
}

func seedLimit(s Onboarding) chain.Limit {
	return syncLimit(s, s.Policy.HardwareSyncSeedTimeoutSeconds, "failed_hw_sync_seed")
}

func healthLimit(s Onboarding) chain.Limit {
	return syncLimit(s, s.Policy.HardwareSyncHealthTimeoutSeconds, "failed_hw_sync_health")
}

// syncLimit distinguishes an unreachable machine from a reachable machine without a hardware
// report.
func syncLimit(s Onboarding, after int, code string) chain.Limit {
	switch s.SSH.Trouble {
	case "":
		return chain.Limit{After: seconds(after), Class: syncFailure, Code: code}
	case sshseed.CommandFailed:
		return chain.Limit{After: seconds(after), Class: syncFailure, Code: "failed_ssh_seed"}
	}
	return chain.Limit{After: seconds(after), Class: connectivity, Code: "failed_ssh_seed"}
}

// enrollmentLimit covers all attempts: each attempt has the policy's time.
func enrollmentLimit(s Onboarding) chain.Limit {
	attempts := retries("wait_for_agent_enrollment")(s).Attempts
	return chain.Limit{
		After: time.Duration(attempts)*enrollmentTime(s) + 10*time.Minute, Class: enrollmentFailure,
		Code: "failed_enrollment",
	}
}

func enrollmentTime(s Onboarding) time.Duration {
	return seconds(s.Policy.AgentEnrollmentTimeoutSeconds)
}

// Descriptions of the stages for a plan.

func expected(d time.Duration) func(Onboarding) chain.About {
	return func(Onboarding) chain.About { return chain.About{Expected: d} }
}

func about(touches, destructive string, d time.Duration) func(Onboarding) chain.About {
	return func(Onboarding) chain.About {
		return chain.About{Touches: touches, Destructive: destructive, Expected: d}
	}
}

var (
	aboutFind    = about("MAAS: a record of the machine, if there is none", "", time.Minute)
	aboutRoCE    = about("MAAS: subnets and links of the RoCE interfaces", "", time.Minute)
	aboutPXE     = about("MAAS: the link of the interface that boots", "", time.Minute)
	aboutRender  = about("the broker: a node record and an enrol token", "", time.Minute)
	aboutRecover = about("MAAS: releases the machine that failed to deploy", "what was installed on it", 2*time.Minute)
	aboutSync    = about("the node: MAAS's hardware sync, by its agent; over SSH if no agent has made contact and the machine does not report its hardware", "", time.Minute)
)

// aboutStorage warns that a released machine may have to be commissioned: a plan does not ask MAAS.
func aboutStorage(s Onboarding) chain.About {
	out := chain.About{Touches: "MAAS: boot disk and storage layout of the machine", Expected: time.Minute}
	if rc := s.Reclaim; rc != nil && rc.Adopted {
		out.Touches += "; a machine that MAAS never commissioned (possible after an adoption) is commissioned first: its power is cycled and it boots from the network"
	}
	return out
}

func aboutCommission(Onboarding) chain.About {
	return chain.About{
		Touches:     "MAAS: the machine's name and power settings; its power is cycled and it boots from the network",
		Destructive: "everything that runs on the machine stops", Expected: time.Minute,
	}
}

func aboutDeploy(s Onboarding) chain.About {
	what := "the content of the boot disk"
	if s.Policy.InitializeExtraDisks {
		what = "the content of all disks"
	}
	touches := "MAAS: allocates, annotates and deploys the machine"
	if s.Policy.RequireHWSync {
		touches += "; the region's " + maas.SyncSetting + " becomes " + s.Policy.HardwareSyncInterval
	}
	return chain.About{Touches: touches, Destructive: what, Expected: 2 * time.Minute}
}
