package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Handout holds the facts that decide whether a node may be handed to a tenant. Reasons is the
// only judge, so the reasons shown to an operator are the reasons that refuse a tenant's user.
type Handout struct {
	Node    Node
	Now     time.Time // when the facts were gathered; a node that is silent at Now is not handed out
	Freezes []string  // freezes in force at the node's site, as shown to people
	// SiteDisabled: the node's site is disabled. Whoever has the node keeps it; nobody else gets it.
	SiteDisabled bool
	RunID        string // of the run that holds the node; empty: none
	Run          string // status of the run
	RunKind      string
	// Occupants are the tenants' users since the node was last handed out clean.
	Occupants []Occupant
	ClaimedBy string // the allocation that holds the node; empty: none
	// OverrideAt is the last time a platform admin permitted use of the node regardless; zero:
	// never. Before OverrideAt these do not count: occupants that ended, certificates that were issued
	// and fall short, certificates that ran out, and policies that became stricter.
	OverrideAt  time.Time
	Certificate *LastCertificate // nil: no turnover has issued a certificate
	Devices     []Device
	Provisions  ProvisionFailures
	Maintenance OpenMaintenance // without an id: none
}

// LastCertificate is the newest clean certificate of a node.
type LastCertificate struct {
	ID          string
	MeetsPolicy bool
	Shortfalls  []string // codes
	IssuedAt    time.Time
	// ValidUntil is the end of its validity: its own, or an earlier one by the policy in force.
	ValidUntil time.Time
	// ShortenedAt is when the policy gave the certificate an earlier end; zero: the end is its own. A change
	// after the certificate's own end gave it none.
	ShortenedAt time.Time
	// Lacks are codes of what the policy in force asks for and the certificate does not prove, beyond its
	// Shortfalls. A stricter policy adds codes; a laxer one never takes a shortfall away. Filled in only
	// while nobody has the node.
	Lacks      []string
	LacksSince time.Time // since the policy asks for that
	// PolicyStands: the policy in force has not changed since the certificate was issued.
	PolicyStands bool
	// Unjudged: nobody has judged the certificate by the policy in force yet, so Lacks says nothing.
	Unjudged bool
}

// endedBefore reports whether the certificate had run out before a time, by the policy of that time.
func (c LastCertificate) endedBefore(t time.Time) bool {
	return c.ValidUntil.Before(t) && c.ShortenedAt.Before(t)
}

// TakeFree is an effect that a store applies when a run starts: the start is refused unless the node may be
// handed out to any tenant at that moment. So a run and a tenant never get a free node both.
type TakeFree struct{ NodeID string }

// Reason is one reason against handing out a node.
type Reason struct {
	Code    string
	Message string
	Next    string // the next action
}

// activationSteps says for each status how the node becomes active.
var activationSteps = map[NodeStatus]string{
	BootstrapIssued: "boot the machine with its user-data, or issue another token (hostler node token issue NODE)",
	Enrolling:       "wait until its checks have ended, or find out why they do not (hostler node timeline NODE)",
	Offline:         "start its agent again",
	Quarantined:     "repair the stated cause, then resume its turnover, or hostler node activate NODE",
	Draining:        "wait for the drain, or hostler node resume NODE; hostler node activate NODE cancels the drain",
	Retired:         "hostler node activate NODE, to use the node again",
	Removing:        "nothing: the node is being removed (hostler node retire NODE keeps it)",
	Deleted:         "nothing: the node is deleted, and its id is never used again",
}

// Reasons returns all reasons against handing the node to a tenant; none: the node may be handed
// out. allocation is the allocation that the caller asks for; empty: none. An allocation of the same tenant is
// no reason against it; if either tenant is unknown, the ids are compared instead. If the
// allocation is already live on the node, only the reasons of service count. Codes: node_status,
// node_silent, turnover_owed, node_in_run, frozen, site_disabled, maintenance, allocation_live, turnover_missing,
// certificate_falls_short, certificate_expired, certificate_below_policy, certificate_not_judged,
// provisioning_failing, device_missing, device_unexpected.
func (h Handout) Reasons(allocation, tenant string) []Reason {
	all := h.service()
	for _, a := range h.Occupants {
		if a.Live() && a.ID == allocation && a.of(allocation, tenant) {
			return all // the node was already handed out to this allocation
		}
	}
	all = append(all, h.siteClosed(allocation)...)
	all = append(all, h.inMaintenance(allocation)...)
	all = append(all, h.otherTenants(allocation, tenant)...)
	return append(all, h.machine()...)
}

// service returns the reasons why the node takes no tenant at all.
func (h Handout) service() (all []Reason) {
	n := h.Node
	add := h.reasonAppender(&all)
	switch {
	case n.Status != Active:
		because := ""
		if n.StatusReason != "" {
			because = " (" + taskcatalog.Clean(n.StatusReason, 200) + ")"
		}
		add("node_status", activationSteps[n.Status], "the node is %s%s", n.Status, because)
	case n.Silent(h.Now): // its status is held, or nobody has looked yet
		since := "never made contact"
		if !n.LastAgentContactAt.IsZero() {
			since = "last made contact " + n.LastAgentContactAt.UTC().Format(time.RFC3339)
		}
		add("node_silent",
			"start its agent again, or repair the network between node and broker (hostler status shows whether other nodes are silent too)",
			"its agent %s, and a node that is silent for more than %s is not handed out", since, SilentAfter)
	}
	if n.TurnoverOwed {
		add("turnover_owed",
			"finish the turnover, start one (hostler decommission start NODE --mode soft_reset --reason R), or hostler node activate NODE --override --reason R", "a turnover is owed")
	}
	if h.RunID != "" {
		next := "wait until the run ends"
		if strings.HasPrefix(h.Run, "failed_") { // the run waits for a person
			next = "resume the run, or cancel it (" + RunKindOf(h.RunKind).Command("show "+h.RunID) + ")"
		}
		add("node_in_run", next, "run %s holds the node, and is %s", h.RunID, h.Run)
	}
	for _, f := range h.Freezes {
		add("frozen", "unfreeze when the freeze is no longer needed (hostler freeze status)", "%s", f)
	}
	return all
}

// siteClosed returns the reason why the node's site takes no new tenant. An allocation that has claimed
// the node before is work in progress, and continues.
func (h Handout) siteClosed(allocation string) (all []Reason) {
	add := h.reasonAppender(&all)
	if h.SiteDisabled && (allocation == "" || h.ClaimedBy != allocation) {
		add("site_disabled", "enable the site (hostler site enable "+h.Node.Site+")", "site %s is disabled", h.Node.Site)
	}
	return all
}

// inMaintenance returns the reason why a node in maintenance takes nobody new. As with a disabled site, an
// allocation that has claimed the node before continues.
func (h Handout) inMaintenance(allocation string) (all []Reason) {
	m := h.Maintenance
	if m.ID == "" || allocation != "" && h.ClaimedBy == allocation {
		return nil
	}
	ticket, until := "", ""
	if m.Ticket != "" {
		ticket = ", ticket " + taskcatalog.Clean(m.Ticket, 64)
	}
	if !m.Until.IsZero() {
		until = ", expected until " + m.Until.UTC().Format(time.RFC3339)
	}
	h.reasonAppender(&all)("maintenance", "close the maintenance when the work is done (hostler maintenance close "+m.ID+" --reason R)",
		"maintenance %s (%s%s%s) is open", m.ID, m.Category, ticket, until)
	return all
}

// otherTenants returns the reasons from other allocations on the node since it was last clean.
func (h Handout) otherTenants(allocation, tenant string) (all []Reason) {
	add := h.reasonAppender(&all)
	if h.ClaimedBy != "" && h.ClaimedBy != allocation {
		add("allocation_live", "release the allocation", "allocation %s holds the node", h.ClaimedBy)
	}
	for _, a := range h.Occupants {
		switch {
		case a.of(allocation, tenant):
		case a.Live():
			add("allocation_live", "end the allocation, then turn the node over", "allocation %s is on the node", a.Describe())
		case !a.EndedAt.Before(h.OverrideAt):
			add("turnover_missing", "hostler decommission start NODE --mode soft_reset --reason R",
				"the node was not turned over since allocation %s ended", a.Describe())
		}
	}
	return all
}

// of reports whether a has the given id or belongs to the given tenant. If both tenants are known
// and differ, the same id does not count. An empty id is no occupant's.
func (a Occupant) of(allocation, tenant string) bool {
	if tenant == "" || a.Tenant == "" {
		return allocation != "" && a.ID == allocation
	}
	return a.Tenant == tenant
}

// Unused reports whether nobody is on the node, and nobody was whose leaving asks for a turnover. An occupant
// that ended before OverrideAt does not count.
func (h Handout) Unused() bool {
	return !slices.ContainsFunc(h.Occupants, func(o Occupant) bool { return o.Live() || !o.EndedAt.Before(h.OverrideAt) })
}

// EndsTheSame reports whether another turnover would end as the last one did: its certificate fell short, and
// neither the policy nor the tenants have changed since. None begins without a person.
func (h Handout) EndsTheSame() bool {
	return h.Certificate != nil && !h.Certificate.MeetsPolicy && h.Certificate.PolicyStands && h.Unused()
}

// Vacant reports whether the node is unused and no allocation holds it. What a certificate lacks by the
// policy in force counts only then.
func (h Handout) Vacant() bool { return h.Unused() && h.ClaimedBy == "" }

// machine returns the known faults of the machine that would be handed out. A certificate that ran
// out counts while nobody has used the node since: it says nothing of a tenant who is there already.
func (h Handout) machine() (all []Reason) {
	add := h.reasonAppender(&all)
	if c := h.Certificate; c != nil && !c.MeetsPolicy && !c.IssuedAt.Before(h.OverrideAt) {
		next := "read which requirements it misses (hostler certificate get " + c.ID + "), meet them, then resume the turnover or start another"
		if h.EndsTheSame() {
			next += "; none begins by itself while the policy is the same"
		}
		add("certificate_falls_short", next, "certificate %s does not meet the policy: %s", c.ID, strings.Join(c.Shortfalls, ", "))
	}
	missing, unexpected := WrongDevices(h.Devices)
	if c := h.Certificate; c != nil && h.Unused() && !h.Now.Before(c.ValidUntil) && !c.endedBefore(h.OverrideAt) {
		add("certificate_expired", "start a turnover (hostler decommission start NODE --mode soft_reset --reason R); a site with turnover_automatic starts it by itself",
			"certificate %s was valid until %s", c.ID, c.ValidUntil.UTC().Format(time.RFC3339))
	}
	all = append(all, h.belowPolicy()...)
	if !h.Provisions.HeldAt.IsZero() {
		add("provisioning_failing", "repair the stated cause, then let the node in again (hostler node activate NODE --reason R)", "%s", h.Provisions)
	}
	for _, d := range missing {
		add("device_missing", "put the device back, or record what happened to it (hostler certificate attest NODE --device "+d.ID+
			" --method destroyed|removed --witness W)", "%s %s is expected, and missing", d.Kind, d.ID)
	}
	for _, d := range unexpected {
		add("device_unexpected", "remove the device, or accept it (hostler node device accept NODE "+d.ID+" --reason R)",
			"%s %s is present, and not expected", d.Kind, d.ID)
	}
	return all
}

// belowPolicy returns the reason why the certificate does not suffice by the policy in force. It counts
// while nobody has the node: whoever has it got it by the policy of that time.
func (h Handout) belowPolicy() (all []Reason) {
	add := h.reasonAppender(&all)
	switch c := h.Certificate; {
	case c == nil || !h.Vacant():
	case c.Unjudged:
		add("certificate_not_judged", "wait: the leading broker judges certificates again when a policy has changed (hostler status shows the brokers)",
			"certificate %s was not judged yet by the policy that is in force now", c.ID)
	case len(c.Lacks) > 0 && !c.LacksSince.Before(h.OverrideAt):
		add("certificate_below_policy", "turn the node over (hostler decommission start NODE --mode soft_reset --reason R, or --mode reimage where a fresh system is lacking); a site with turnover_automatic does so by itself",
			"the site's policy asks for more since certificate %s was issued: %s", c.ID, strings.Join(c.Lacks, ", "))
	}
	return all
}

func (h Handout) reasonAppender(to *[]Reason) func(code, next, format string, args ...any) {
	return func(code, next, format string, args ...any) {
		*to = append(*to, Reason{Code: code, Message: fmt.Sprintf(format, args...), Next: strings.ReplaceAll(next, "NODE", h.Node.ID)})
	}
}

// LetIn refuses a user of an allocation, with the first reason. Codes: see Reasons.
func (h Handout) LetIn(allocation, tenant string) error {
	all := h.Reasons(allocation, tenant)
	if len(all) == 0 {
		return nil
	}
	more := ""
	if n := len(all) - 1; n > 0 {
		more = fmt.Sprintf("; and %d more: hostler node show %s", n, h.Node.ID)
	}
	return Errorf(Refused, all[0].Code, "cannot hand out node %s: %s (%s%s)", h.Node.ID, all[0].Message, all[0].Next, more)
}
