// Package rollout gives a release of the agent to many nodes, a few at a time: canaries
// first, then wave after wave, each looked at for a while before the next.
//
// # Model
//
// A rollout is one run of a chain. Its members are frozen when it is asked for: which
// nodes, in which wave, and which were left out and why. All that becomes of a member is
// a run of package agentlifecycle on that one node, whose id follows from the rollout's. That it
// is to begin is saved first, and then it is begun: a run that no save tells of is found by
// its id, by whatever the rollout does next. The rollout only begins those, looks at them
// and counts; what is true of a node is what its run and the node itself say.
//
//	waiting      nothing has begun on it
//	running      its run is under way, or about to begin; parked: it waits for who is on
//	             the node
//	failing      its run stopped or was cancelled, and is being put away
//	taking_back  the node is given the release before, since it runs this one and is unwell
//	done         its run has completed: the four verifications of package agentlifecycle hold
//	skipped      nothing was done to it, and why
//	failed, rolled_back, taken_back   it failed: as it is, put back by the node's own
//	             watcher, given the release before by this rollout
//
// # Concurrency, and who is on a node
//
// At most Concurrency runs move at a time. By policy after_drain a run that waits for a
// tenant keeps new ones out, and counts apart: at most as many again are parked like
// that, so that a wave does not close all of its nodes at once. Parked members, and busy
// ones that find no place, do not hold the wave up once it has a node that is done: they
// go on when their tenant has left, and the rollout ends when the last of them has. One
// that is not free within a day is skipped (not_drained).
//
// A canary that is skipped or parked proves nothing, and the next member takes its place.
//
// # Failure
//
// A member that fails counts. At MaxFailures of them, and at the first among the canaries,
// the rollout begins nothing more, withdraws what has done nothing yet, lets those under way
// end, takes back what it gave to others if OnFailure says so, and stops for a person
// (rollout_paused). When the release is revoked, falls below the floor or is not what it
// was, it stops likewise, and takes nothing back. During a soak the nodes that are done are
// looked at again: one that is silent by its last contact, runs something else or has lost
// a device has failed. Of one that runs something else the node's word says whether its own
// watcher has put that back. What others do to a node is passed over, or waited for: see judge.
//
// What failed is taken back at once, whatever OnFailure says, if the node runs the release
// and its agent answers. Where it cannot be, the member is failed and Back says why.
//
// # An operator's word
//
// Resume goes on where it was: the failures so far are acknowledged and count no more. Rerun
// also gives those another try that failed or were skipped. A pause is in the state, and
// stops the rollout like a failure that takes nothing back. Cancel begins nothing more,
// waits for those under way, and leaves the release where it is; going back is a rollout of
// the version before.
package rollout
