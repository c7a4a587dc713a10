package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// refused says why the policy is invalid; empty: the policy is valid. Each knob is held to its
// declaration; the rules between knobs are here.
func (p Policy) refused() string {
	p = p.completed()
	for _, k := range knobs {
		if why := k.Refusal(k.Of(p)); why != "" {
			return why
		}
	}
	interval, err := SyncInterval(p.HardwareSyncInterval)
	if err != nil {
		return err.Error()
	}
	syncs, boots := (3*int(interval.Seconds())+1)/2, p.DeployTimeoutSeconds+p.AgentEnrollmentTimeoutSeconds
	switch {
	case p.OverwriteKnownSignatures && !p.InitializeExtraDisks:
		return "overwrite_known_signatures needs initialize_extra_disks (set both, or neither)"
	case p.EnrollmentTokenTTLSeconds < boots:
		return fmt.Sprintf("enrollment_token_ttl_seconds is %d, and the deployment and the first boot may take %d s (raise it to that at least)",
			p.EnrollmentTokenTTLSeconds, boots)
	case p.RequireHWSync && p.HardwareSyncHealthTimeoutSeconds < syncs:
		return fmt.Sprintf("hardware_sync_health_timeout_seconds is %d, and MAAS allows a sync one and a half intervals, %d s (raise it to that at least)",
			p.HardwareSyncHealthTimeoutSeconds, syncs)
	}
	return ""
}

// completed is the policy with the defaults of the knobs that an older profile does not have.
func (p Policy) completed() Policy {
	p.SilentReimagesAtOnce = p.silentReimages()
	if p.TurnoverEnvironment == "" {
		own := p.SilentReimagesAtOnce
		p.TurnoverRules = DefaultPolicy().TurnoverRules
		p.SilentReimagesAtOnce = own
	}
	p.AcceptEraseDowngrade = cmp.Or(p.AcceptEraseDowngrade, "never")
	p.EndOperationPassAfter = cmp.Or(p.EndOperationPassAfter, DefaultPolicy().EndOperationPassAfter)
	return p
}

const mostRetries = 20

func refusedRetries(retries map[string]int) string {
	for _, stage := range slices.Sorted(maps.Keys(retries)) {
		if !slices.Contains(RetriedStages(), stage) {
			return fmt.Sprintf("stage_retries names %q, which is not a retried stage (retried stages: %s)",
				cleanText(stage), strings.Join(RetriedStages(), ", "))
		}
		if n := retries[stage]; n < 0 || n > mostRetries {
			return fmt.Sprintf("stage_retries of %s is %d retries (allowed: 0 to %d retries)", stage, n, mostRetries)
		}
	}
	return ""
}

func refusedChecks(checks []string) string {
	for i, check := range checks {
		switch {
		case !slices.Contains(taskcatalog.PlatformChecks(), check):
			return fmt.Sprintf("report_only names %q, and only these may be reported without effect: %s",
				cleanText(check), strings.Join(taskcatalog.PlatformChecks(), ", "))
		case slices.Contains(checks[:i], check):
			return fmt.Sprintf("report_only names %s twice", check)
		}
	}
	return ""
}
