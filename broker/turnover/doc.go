// Package turnover holds the runs between two tenants of a node: four lists of stages (Chains),
// their state (Turnover), and the port to the broker's records (Nodes). Package records
// implements the port. The package writes no table itself and lets no node into service without a
// certificate.
//
// # Model
//
// A run of a turnover has a mode. soft_reset cleans the node in its present system and proves the
// result. reimage has MAAS install a fresh system, and inspects the machine from there.
// full_decommission takes the node out of the fleet. storage_cleanup only empties the node's
// storage and inspects it. Each stage on the machine is one typed task of its agent, requested
// once an attempt and waited for. The agent's signed evidence goes into the clean certificate at
// the end.
//
// # When a tenant may be let in
//
// The first stage takes the node out of service and owes it a turnover. The same transaction
// checks for live allocations: a live allocation stops the run, unless the run was told to end
// that allocation by force. From then on only the last stage leads to active. The last stage
// needs this run's certificate, stored and meeting the site's policy. Until then the node is
// draining, retired or quarantined. A stage that finds the machine not clean quarantines the
// node, so that everybody sees the reason; the stage may be retried after a repair.
//
// # The machine in MAAS
//
// The work in MAAS belongs to package onboarding: the lists include its stages, over
// Turnover.Machine. A reimage uses an onboarding's stages, the same values. This package adds the
// order: a node is cut off before its machine is released, its allocations are over when MAAS has
// the machine, and from then on the run stops if anybody shows a certificate of the former system.
// The node stays retired until enable_node. The broker itself establishes that the inspection ran
// in a fresh system: by this run's work in MAAS, and by the enrolment after it.
//
// A fresh system is compared with the node's baseline, except for the values that each
// installation makes for itself. If nothing else differs, the system's own baseline replaces the
// old baseline (Nodes.Reinstalled). A person must accept any other difference. A run may be asked for an image.
// The system from another image is compared with the last baseline of that image, and its hardware with the
// old baseline.
//
// Work that the former system no longer does is recorded as not made (bestEffort).
//
// # Undo
//
// A turnover deletes a tenant's state for good. So undo restores nothing of the tenant: a
// cancelled run leaves the node quarantined, with a turnover still owed. Only another run, or a
// platform admin's override, leads out of that. A run that never took the node, because a tenant is
// on it, leaves the node unchanged, and a run cancelled during a removal leaves the node retired.
//
// # What counts as evidence
//
// The identity is rotated right after the drain. Proof is only a signature by a key certified
// after the rotation, and only if nobody else was seen with that key or used the previous key
// (refuseConflict). Earlier tasks are on the certificate by digest only. A failed task is no proof,
// and a task older than a certificate's validity proves nothing about today (refuseStale).
package turnover
