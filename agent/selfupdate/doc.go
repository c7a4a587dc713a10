// Package selfupdate installs another release of the agent on a node, and reverts to the previous
// release if the new one does not come up. Its main types are Stager (brings a release), Updater
// (carries out node.self_update), Watcher (makes the switch and judges the new version) and Store
// (the slots and the record of updates). The package never decides by itself to update: a task or a
// person asks.
//
// # Model
//
// A version lives in a slot: a folder of its own, never changed once it has its name. The link
// current says which slot runs:
//
//	/usr/lib/hostler-agent/versions/.unverified-V-DIGEST/  fetched, not judged
//	/usr/lib/hostler-agent/versions/.verified-V-DIGEST/    signed, not tested
//	/usr/lib/hostler-agent/versions/V/hostler-agent        a slot
//	/usr/lib/hostler-agent/current                         link: the slot that runs
//	/usr/lib/hostler-agent/good                            link: the slot known to work
//	/var/lib/hostler-agent/update/state.json               decisions, and the trial under way
//	/var/lib/hostler-agent/update/state.kept.json          copy as of the switch or the confirmation
//	/var/lib/hostler-agent/update/state.damaged.json       state.json as damaged by a version on trial
//	/var/lib/hostler-agent/update/ballast                  space for writes on a full disk
//	/var/lib/hostler-agent/update/contact                  the agent's mark of contact with its broker
//	/var/lib/hostler-agent/update/process                  the instance under which the agent polls
//	/var/lib/hostler-agent/update/before/                  the node's state from before the switch
//
// Three parties take part:
//
//	agent, old   fetches, verifies, tests, arms a trial, starts the watcher
//	watcher      runs from the good slot: stops the agent, switches, starts it, watches,
//	             confirms or reverts, records the outcome, and watches on
//	agent, new   marks contact, and takes no task before it is confirmed
//
// Only the watcher makes a switch, so that no switch happens without a watcher.
//
// # States of a trial
//
//	armed → watching → (confirmed) proving → good
//	           ↓                      ↓
//	        reverting → returning → (rolled back)
//
// Each step is in state.json before it is taken, and may be taken again after a loss of power. The
// states in brackets are outcomes reported to the broker; they are written together with the step.
//
// A version is confirmed as soon as it works: it is ready, it has reached the broker, and ten more
// seconds have passed. A rollout waits for the confirmation node by node, and tasks wait for it as
// well. Some versions fail only at their first task, or after a minute. A confirmed version
// therefore takes tasks while the watcher watches on for Proof; only then does it become the
// fallback. If the version ends twice within Proof, or hangs, it is reverted, and its delivery then
// says so; a rollout looks at its nodes again while it soaks. The next update does not wait for a
// proof: it interrupts the proof, and its fallback is the version known to work.
//
// The outcome rolled back is recorded once the old version is ready, whoever started it, with the
// seconds for which the node had no working version.
//
// # What reverts, and what does not
//
// The new version is reverted when it ends twice by itself, when it is not ready in time, when the
// machine goes down under it three times, unasked and soon after one another, or when it does not
// reach the broker although the broker can be reached. See Trial.Decide. The action of a person is
// no fault of a version: the watcher waits for a stopped agent, and a start by hand resets the
// count.
//
// To tell an unreachable broker from a faulty version, the watcher polls the broker itself, with
// the old version's code: contact means an answer to tasks/wait. A broker that answers only other
// requests does not count as reachable. Silence is the new version's fault only if the window is
// over, if the old agent had contact just before the switch, and if the watcher itself has reached
// the broker for longer than an agent pauses between two tries. A task therefore waits for contact
// before it switches: without this, a version that cannot reach the broker would stay. While the
// broker does not answer the watcher either, the trial goes on, however long. A revert thus leaves
// no doubt that would justify another switch.
//
// Windows are counted in the watcher's own ticks, not by the clock: a clock step reverts nothing.
//
// # Rules
//
//   - Nothing fetched is trusted or run before its digest or signature is
//     verified; the names of unverified files say so.
//   - The fallback is a slot that ran with contact, never the slot being
//     replaced, and never merely "the other".
//   - A failed version is skipped, with the reason, until an operator unpins it,
//     provided that the version was at fault. It was not if the previous version
//     does not come up either or fails the same test. Boot loops do not count
//     either, because repeated losses of power look the same.
//   - A version writes a newer form of the state only once it is confirmed.
//   - If an unconfirmed version damages the state, the copy from before the
//     switch is restored. No task is lost, because an unconfirmed version takes
//     none. If a version in its proof damages the state, the data since the
//     switch is lost: an agent that forgets is better than an unreachable machine.
//     The restored ledger then records until when it knows nothing. A task issued
//     before this time and unknown to the ledger is not run: it ends as
//     interrupted, with the probe's finding.
//   - A version on trial may also damage the update's record: remove it, empty it,
//     or write an unknown form. The kept copy then names the fallback; if the copy
//     is damaged as well, the link good does. A confirmed version may write a
//     newer form.
//   - A restored part must be readable and be the node's own: a recreated ledger
//     has another id.
//   - Fields added by a newer version are ignored. A change that older versions
//     cannot ignore gets a new form, and no switch is made to a version that does
//     not read the form.
//   - A task's result comes from state.json, whichever version runs then.
package selfupdate
