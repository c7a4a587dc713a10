// Package selfupdate puts another release of the agent on a node, and puts the one
// before it back where the new one does not come up.
//
// # Model
//
// A version lives in a slot, a folder of its own that is never changed once it has
// its name. One link says which slot runs:
//
//	/usr/lib/hostler-agent/versions/.unverified-V-DIGEST/  fetched, not judged
//	/usr/lib/hostler-agent/versions/.verified-V-DIGEST/    signed, not tested
//	/usr/lib/hostler-agent/versions/V/hostler-agent        a slot
//	/usr/lib/hostler-agent/current                         link: the slot that runs
//	/usr/lib/hostler-agent/good                            link: the slot that is known to work
//	/var/lib/hostler-agent/update/state.json               what was decided, and what is under way
//	/var/lib/hostler-agent/update/contact                  the agent's mark that it has spoken to its broker
//	/var/lib/hostler-agent/update/before/                  the node's state, as it was before the switch
//
// Three parties take part:
//
//	agent, old   fetches, verifies, tests, arms a trial, starts the watcher
//	watcher      runs from the good slot: stops the agent, switches, starts it, watches,
//	             confirms or puts back, and writes down which
//	agent, new   marks contact, and takes no task before it is confirmed
//
// The watcher makes the switch itself: nothing is ever switched that nobody watches.
//
// # States of a trial
//
//	armed → watching → (confirmed)
//	           ↓
//	        reverting → (rolled back)
//
// Each step is in state.json before it is taken and may be taken again after a loss
// of power. What is in brackets ends the trial: good moves to the new slot, or the
// version is pinned, in the same write.
//
// # What reverts, and what does not
//
// The new version is put back when it ends twice, when it does not say that it is
// ready, when the machine restarts three times under it, or when it does not speak to
// the broker although the broker can be reached. See Trial.Decide.
//
// That a broker is away is told from a version that cannot reach it by asking with
// the old version's own code: the watcher is that code. Only when the window is over,
// when the old agent had contact just before the switch, and when the watcher has
// itself reached the broker for longer than an agent pauses between two tries, is the
// silence the new version's fault. While the broker does not answer the watcher
// either, the trial goes on, however long that takes. So after a revert there is no
// doubt left in whose favour to switch again.
//
// Windows are counted in the watcher's own ticks, not by the clock: one that is set
// anew reverts nothing.
//
// # Rules
//
//   - Nothing that was fetched is read before what names it holds; what is not
//     verified is named so.
//   - The slot to go back to is the one that ran with contact, never the one that is
//     being replaced, and never merely "the other".
//   - A version that failed is skipped, with the reason, until someone says otherwise.
//   - A version writes a newer form of the state only once it is confirmed. One that
//     damages what the old version must read costs nothing: a copy from before the
//     switch is put in its place. No task can be lost by that, since an unconfirmed
//     version takes none.
//   - A task's result comes from state.json, by whichever version runs then.
package selfupdate
