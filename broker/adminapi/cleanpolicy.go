package adminapi

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

type policyInput struct {
	Site string `query:"site" maxLength:"63" doc:"empty: the policy of nodes without a site"`
}

// showPolicy returns a site's policy, or an empty policy if none is set.
func (a *API) showPolicy(ctx context.Context, in *policyInput) (*api.CleanPolicy, error) {
	if who := callerOf(ctx); !who.MaySee(in.Site) {
		return nil, siteForbidden(who, in.Site)
	}
	raw, err := a.c.DB.CleanPolicy(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	out := &api.CleanPolicy{Site: in.Site}
	if raw == nil {
		return out, nil
	}
	if err := taskcatalog.DecodeStrict(raw, &out.Policy); err != nil {
		return nil, err
	}
	rows, err := a.c.DB.ListAudit(ctx, store.AuditFilter{Action: "policy.clean", Subject: "site/" + in.Site, Newest: true, Limit: 1})
	if err == nil && len(rows) == 1 {
		out.UpdatedAt, out.UpdatedBy = rows[0].At, rows[0].Actor
	}
	return out, err
}

type setPolicyInput struct{ Body api.CleanPolicyPut }

func (a *API) setPolicy(ctx context.Context, in *setPolicyInput) (*api.CleanPolicy, error) {
	site := in.Body.Site
	if !siteForm.MatchString(site) {
		return nil, badPolicy("site %q is not a valid site name (a-z, 0-9 and '-')", site)
	}
	if err := a.checkSiteName(ctx, site); err != nil {
		return nil, err
	}
	if err := checkPolicy(in.Body.Policy); err != nil {
		return nil, err
	}
	raw, err := taskcatalog.Encode(in.Body.Policy)
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.SetCleanPolicy(ctx, callerOf(ctx).actor(), site, raw, in.Body.Reason); err != nil {
		return nil, err
	}
	return a.showPolicy(ctx, &policyInput{Site: site})
}

const (
	maxPolicyItems = 256
	maxScratch     = 64
)

var (
	userForm    = lazyregexp.New(`^[a-z_][a-z0-9_.-]{0,31}\$?$`)
	portForm    = lazyregexp.New(`^(tcp|udp)/[1-9][0-9]{0,4}$`)
	scratchForm = lazyregexp.New(`^(/[A-Za-z0-9._*?-]+)+$`)
	serviceForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9:_.@-]{0,200}\.service$`)
	driverForm  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~:-]{0,63}$`)
)

// checkPolicy refuses what a node would refuse, and a scratch pattern that would cover more than
// scratch space: everything that the pattern matches is emptied.
func checkPolicy(p taskcatalog.CleanPolicy) error {
	for name, list := range map[string][]string{
		"users": p.KnownUsers, "units": p.KnownUnits, "ports": p.KnownPorts,
		"processes": p.KnownProcesses,
	} {
		if len(list) > maxPolicyItems {
			return badPolicy("the policy names too many %s", name)
		}
		for _, item := range list {
			if item == "" || len(item) > 255 || taskcatalog.Clean(item, 1024) != item {
				return badPolicy("one of the policy's %s is empty, too long or has control characters", name)
			}
		}
	}
	for _, u := range p.KnownUsers {
		if !userForm.MatchString(u) {
			return badPolicy("user %q is not a valid account name", u)
		}
	}
	for _, port := range p.KnownPorts {
		if !portForm.MatchString(port) {
			return badPolicy("port %q is not tcp/PORT or udp/PORT", port)
		}
	}
	if len(p.Scratch) > maxScratch {
		return badPolicy("the policy names too many %s", "scratch directories")
	}
	for _, s := range p.Scratch {
		top, _, _ := strings.Cut(strings.TrimPrefix(s, "/"), "/")
		if !scratchForm.MatchString(s) || strings.Contains(s+"/", "/../") || strings.Contains(s+"/", "/./") ||
			strings.ContainsAny(top[:1], "*?") {
			return badPolicy("scratch %q is not an absolute path pattern such as /share*", s)
		}
		if own := taskcatalog.ScratchReaches(s); own != "" {
			return badPolicy("scratch %q includes or lies in the system's "+own, s)
		}
	}
	if p.GPU == nil {
		return nil
	}
	return checkGPUPolicy(*p.GPU)
}

const (
	maxGPUItems     = 64
	minGPUCoverage  = 50       // percent: less does not count as a scrub of a GPU
	maxGPUUncovered = 64 << 30 // bytes
	maxHolderGrace  = 300      // seconds
	maxFabricWait   = 3600     // seconds
)

// essentialServices matches services that a scrub needs, or without which the node does not
// survive.
var essentialServices = lazyregexp.New(`^(hostler-agent|nvidia-fabricmanager|(nvidia-)?nvlsm|dbus|dbus-broker|systemd-.*|user@.*)\.service$`)

// checkGPUPolicy refuses what a node would refuse, and figures so lax that any GPU would pass as
// clean.
func checkGPUPolicy(p taskcatalog.GPUScrubPolicy) error {
	switch {
	case len(p.StopServices) > maxGPUItems || len(p.Drivers) > maxGPUItems:
		return badPolicy("the policy names too many %s", "services or drivers for GPUs")
	case p.MinCoveragePercent != 0 && !(p.MinCoveragePercent >= minGPUCoverage && p.MinCoveragePercent <= 100):
		return badPolicy("gpu.%s is not between 50 and 100", "min_coverage_percent")
	case p.MaxUncoveredBytes > maxGPUUncovered:
		return badPolicy("gpu.%s is more than 64 GiB", "max_uncovered_bytes")
	case p.HolderGraceSeconds < 0 || p.HolderGraceSeconds > maxHolderGrace:
		return badPolicy("gpu.%s is not between 0 and 300", "holder_grace_seconds")
	case p.FabricWaitSeconds < 0 || p.FabricWaitSeconds > maxFabricWait:
		return badPolicy("gpu.%s is not between 0 and 3600", "fabric_wait_seconds")
	}
	for _, name := range p.StopServices {
		if !serviceForm.MatchString(name) {
			return badPolicy("%q in gpu.stop_services is not a service name such as exporter.service", name)
		}
		if essentialServices.MatchString(name) {
			return badPolicy("%q in gpu.stop_services is needed while GPUs are scrubbed", name)
		}
	}
	for _, version := range p.Drivers {
		if !driverForm.MatchString(version) {
			return badPolicy("%q in gpu.drivers is not a driver version such as 550.90.07", version)
		}
	}
	return nil
}

func badPolicy(format, value string) error {
	return broker.Errorf(broker.Invalid, "clean_policy_invalid", "cannot set clean policy: "+format, taskcatalog.Clean(value, 200))
}
