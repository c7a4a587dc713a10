// Package rollout delivers a release of the agent to many nodes, a few at a time: canaries first,
// then wave after wave, each watched for a while before the next. The main types are Rollout (the
// state), Chains (the stages) and Nodes (the port to the broker's records, which package records
// implements). The package works on no node itself: runs of package agentlifecycle do.
//
// # Model
//
// A rollout is one run of a chain. Its members are fixed at the request: the nodes with their
// waves, and the excluded nodes with the reasons. All work on a member is a run of package
// agentlifecycle on that node, whose id derives from the rollout's id. The decision to begin a
// run is saved before the run begins. If the rollout loses the save after that, it finds the run
// by its id in a later step. A rollout only begins runs, reads them and counts; the state of a
// node comes from its run and from the node itself.
//
//	waiting      nothing has begun on the node
//	running      its run is under way, or about to begin; parked: the run waits for a tenant of
//	             the node
//	failing      its run stopped or was cancelled, and is being put away
//	taking_back  the node gets the previous release, because it runs this release and is unwell,
//	             or because OnFailure takes back healthy nodes as well
//	done         its run has completed: the four verifications of package agentlifecycle hold
//	skipped      nothing was done to the node; the reason is noted
//	failed, rolled_back, taken_back   the node failed: left as it is, put back by the node's own
//	             watcher, or given the previous release by this rollout
//
// # Concurrency and tenants
//
// At most Concurrency runs move at a time. Under policy after_drain a run that waits for a tenant
// keeps new tenants out, and counts separately: at most Concurrency further runs are parked, so
// that a wave does not close all of its nodes at once. Parked members, and busy members without a
// place, do not delay a wave that has a done member. They continue when their tenant has left,
// and the rollout ends after the last of them. A member whose node is not free within a day is
// skipped (not_drained).
//
// A skipped or parked canary proves nothing, and the next member takes its place.
//
// # Failure
//
// A failed member counts. At MaxFailures failures, and at the first failure of a canary, the
// rollout begins nothing more, withdraws runs that have done nothing yet, lets the runs under way
// end, takes back delivered releases if OnFailure says so, and stops for a person
// (rollout_paused). A rollout also stops, without taking back, when its release is revoked, falls
// below the floor or has changed. During a soak the done nodes are inspected again: a node that
// is silent by its last contact, runs another program or has lost a device has failed. If a node
// runs another program, its own report says whether its watcher put that program back. Changes by
// other parties are ignored, or waited for: see judge.
//
// A failed member is taken back at once, whatever OnFailure says, if the node runs the release
// and its agent answers. Otherwise the member is failed, and Back gives the reason.
//
// # An operator's actions
//
// Resume continues at the same place: the failures so far are acknowledged and count no more.
// Rerun also gives failed and skipped members another try. A pause is stored in the state, and
// stops the rollout like a failure without taking back. Cancel begins nothing more, waits for the
// runs under way, and leaves the release in place; the way back is a rollout of the previous
// version.
package rollout
