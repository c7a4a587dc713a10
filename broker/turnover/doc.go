// Package turnover is what becomes of a node between two tenants: four lists of
// stages, and what they need of the broker.
//
// # Model
//
// A run of a turnover has a mode. soft_reset cleans the node where it stands and
// proves it; reimage has MAAS put a fresh system on its machine, and looks at it from
// there; full_decommission takes the node out of the fleet; storage_cleanup only
// empties its storage and looks. Each stage that
// works on the machine is one typed task of its agent, asked for once an attempt and
// waited for; what the agent signed of it goes into the clean certificate at the end.
//
// # Who may be let in
//
// The first stage takes the node out of service and owes it a turnover, in one
// transaction with a look at who is on it: a live allocation stops that, unless the
// run was told to end it by force. From then on nothing leads to active but the last
// stage, which needs the certificate of this run, kept and met by the site's policy.
// Between the two the node is draining, retired or quarantined. A stage that finds
// the machine not clean quarantines it, so that everybody sees why; that stage may be
// tried again when it was mended.
//
// # The machine in MAAS
//
// What MAAS does is not this package's: the lists have the stages of package onboarding in
// them, over Turnover.Machine. A reimage has those of an onboarding, the same values.
// What is added here is the order of things: a node is cut off before its machine is
// asked for, its allocations are over when MAAS has it, and from then on whoever shows
// a certificate from before stops the run. The node stays retired until enable_node;
// that it was looked at in a fresh system is the broker's own finding, by what this run
// had MAAS do and by the enrolment that came after.
//
// A fresh system is held to the node's baseline but for what each installation makes
// for itself; if that is all, it has the baseline of its own from then on
// (Nodes.Reinstalled), and everything else is a person's to accept.
//
// What the former system does not do any more is recorded as not made (bestEffort).
//
// # Taking back
//
// A turnover ends what a tenant had, and nothing brings that back. So there is one
// thing to take back, and it is not the tenant's state: a cancelled run leaves the
// node quarantined, still owed a turnover. Another run, or a platform admin's
// override, brings it on. A run that never had the node, because a tenant is on it,
// leaves it as it is, and one that was removing a node leaves it retired.
//
// # What counts as evidence
//
// The identity is rotated right after the drain, and only what was signed by a key
// that was certified after that is proof, as long as nobody else was seen to have that
// key, or to use the one before it (alone). Earlier tasks stand on the certificate by
// their digests. A task that ended badly is no proof of anything, and one that ended
// longer ago than a certificate is good for proves nothing of today (lately).
package turnover
