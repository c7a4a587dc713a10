package turnover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// Past is what the mode of a turnover depends on beside the policy, the node and its tenants.
type Past struct {
	// Organisations are those of the tenants that are projects.
	Organisations []string
	// Resets are the soft resets since the node's last reimage.
	Resets int
	// RootSinceReimage: a tenant had root since the node's last reimage, also one after whom the node was handed out again
	// by a policy that permitted it.
	RootSinceReimage bool
	// Unended says what may still run on the node, and only a reimage ends; empty: nothing.
	Unended string
	// Passed are allocations on the node whose operation of the end did not end well, and was passed over by policy.
	Passed []string
}

// Choice is the mode of a turnover that nobody requested.
type Choice struct {
	Mode    Mode
	Erase   string
	Because string // why it is a reimage; empty: it is none
	// Possible is false if the policy asks for a fresh system, and MAAS has no machine to reimage.
	Possible bool
}

// Explain adds to the reason of a turnover why it is a reimage.
func (c Choice) Explain(reason string) string {
	if c.Because == "" {
		return reason
	}
	return reason + "; reimage because " + c.Because
}

// Choose is the least mode and erase whose certificate can meet the policy, after the tenants since the node
// was last handed out clean, or a reimage if a rule of the policy asks for it (broker.ModePolicy). A node
// without a machine in MAAS that a rule wants reimaged gets no other mode in its place: the turnover is refused.
func Choose(n broker.Node, at Place, tenants []broker.Occupant, past Past) Choice {
	p, inMAAS := at.Policy.Turnover(), n.MAASSystemID != "" && at.Site.ID != ""
	c := Choice{Mode: SoftReset, Erase: taskcatalog.EraseSecure, Possible: true}
	if p.DiskGrade == string(certificate.GradeNone) {
		c.Erase = EraseNone
	}
	fresh, rules := asksFresh(p, tenants, past), asksReimage(n, at.Policy.ModePolicy, tenants, past)
	why := slices.Concat(fresh, rules)
	if inMAAS { // without a machine there, the usual cleaning is all there is
		why = append(why, passed(past)...)
	}
	if inMAAS && len(why) == 0 && erasesSystem(p) {
		why = []string{"deleted files on the system's disk do not suffice (accept_system_disk)"}
	}
	c.Possible = inMAAS || len(why) == 0
	if inMAAS && len(why) > 0 || len(rules) > 0 {
		c.Mode, c.Because = Reimage, strings.Join(why, ", ")
	}
	return c
}

// passed says of which allocations an operation that was to clean up did not end well. A soft reset then begins with more
// on the node than otherwise, and a reimage does not.
func passed(past Past) (why []string) {
	for _, id := range past.Passed {
		why = append(why, "the operation of the end of allocation "+id+" did not end well and was passed over by policy (end_operation_pass_after)")
	}
	return why
}

// asksFresh says why a certificate needs a fresh system to meet the policy; none: it does not.
func asksFresh(p broker.TurnoverPolicy, tenants []broker.Occupant, past Past) (why []string) {
	if p.TurnoverEnvironment != string(certificate.TenantOS) {
		why = append(why, "turnover_environment is "+p.TurnoverEnvironment)
	}
	hadRoot := past.RootSinceReimage || slices.ContainsFunc(tenants, func(o broker.Occupant) bool { return o.HadRoot })
	if p.RootRequiresReimage && hadRoot {
		why = append(why, "a tenant had root (root_requires_reimage)")
	}
	return why
}

// erasesSystem reports whether the disk that the system runs from must be erased. A soft reset only deletes
// files from it. Without MAAS a soft reset is tried regardless: the node may have no such disk.
func erasesSystem(p broker.TurnoverPolicy) bool {
	const none = string(certificate.GradeNone)
	return p.DiskGrade != none && !p.AcceptSystemDisk && p.AcceptEraseDowngrade != none
}

// asksReimage says which rules ask for a reimage, whatever the certificate needs.
func asksReimage(n broker.Node, p broker.ModePolicy, tenants []broker.Occupant, past Past) (why []string) {
	if past.Unended != "" {
		why = append(why, past.Unended)
	}
	if slices.Contains(p.ReimageSKUs, n.SKU) {
		why = append(why, "SKU "+n.SKU+" is named (reimage_skus)")
	}
	for _, id := range p.ReimageTenants {
		if slices.Contains(past.Organisations, id) || slices.ContainsFunc(tenants, func(o broker.Occupant) bool { return o.Tenant == id }) {
			why = append(why, "tenant "+id+" is named (reimage_tenants)")
		}
	}
	if number := past.Resets + 1; p.ReimageEvery > 0 && number >= p.ReimageEvery {
		why = append(why, fmt.Sprintf("it is turnover %d since the last reimage (reimage_every %d)", number, p.ReimageEvery))
	}
	return why
}
