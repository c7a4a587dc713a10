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
//	/var/lib/hostler-agent/update/state.kept.json          the same as of the switch, or of when it was confirmed
//	/var/lib/hostler-agent/update/state.damaged.json       what a version on trial made of it, for people
//	/var/lib/hostler-agent/update/ballast                  space for what must be written on a full disk
//	/var/lib/hostler-agent/update/contact                  the agent's mark that it has spoken to its broker
//	/var/lib/hostler-agent/update/process          as whom the agent on trial asks the broker
//	/var/lib/hostler-agent/update/before/                  the node's state, as it was before the switch
//
// Three parties take part:
//
//	agent, old   fetches, verifies, tests, arms a trial, starts the watcher
//	watcher      runs from the good slot: stops the agent, switches, starts it, watches,
//	             confirms or puts back, writes down which, and watches on
//	agent, new   marks contact, and takes no task before it is confirmed
//
// The watcher makes the switch itself: nothing is ever switched that nobody watches.
//
// # States of a trial
//
//	armed → watching → (confirmed) proving → good
//	           ↓                      ↓
//	        reverting → returning → (rolled back)
//
// Each step is in state.json before it is taken and may be taken again after a loss
// of power. What is in brackets is told to the broker: it is written with the step.
//
// A version is confirmed as soon as it works: ready, heard, and ten seconds older. That is
// what a rollout waits for, node by node, and tasks wait for it, too. But some versions end
// at their first task, or when a minute is over. So a confirmed one takes tasks and is
// watched on, for Proof, and only then is it the one that is gone back to. If it ends
// twice within that time, or hangs, it is put back, and its delivery says so from then on;
// a rollout looks at its nodes again while it soaks. The next update does not wait for the
// proof of the one before: it takes its turn, and goes back to what is known to work.
//
// Rolled back is said once the old version has said that it is ready, by whoever it was
// that started it, and with the seconds for which the node had no version that worked.
//
// # What reverts, and what does not
//
// The new version is put back when it ends twice by itself, when it does not say that it
// is ready, when the machine goes down under it three times, unasked and soon after one
// another, or when it does not speak to the broker although the broker can be reached. See
// Trial.Decide. What a person does is no fault of a version: one that is stopped is waited
// for, and a start by hand begins the count anew.
//
// That a broker is away is told from a version that cannot reach it by asking with
// the old version's own code what contact means, tasks/wait, for no task: the watcher is
// that code. A broker that answers all else answers nothing. Only when the window is over,
// when the old agent had contact just before the switch, and when the watcher has
// itself reached the broker for longer than an agent pauses between two tries, is the
// silence the new version's fault. So a task switches only when the old agent has had
// contact just now, and waits for it: without that, a version that cannot reach the broker
// would stay. While the broker does not answer the watcher
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
//   - A version that failed is skipped, with the reason, until someone says otherwise: if
//     it was the version. It was not where the one before it does not come up either, or
//     fails the same test, and a loss of power looks like a machine that a version brings
//     down.
//   - A version writes a newer form of the state only once it is confirmed. One that
//     damages what the old version must read costs nothing: a copy from before the
//     switch is put in its place. No task can be lost by that, since an unconfirmed
//     version takes none. One that damages it while it is proved costs what was written
//     since: an agent that forgets is better than a machine that nobody reaches. But the
//     copy then says until when it knows nothing, and a task that was issued before that
//     and that it does not know is not run: it ends as interrupted, with what is found.
//   - A version on trial may damage what was decided of it, too: remove it, empty it, write
//     a form that nobody reads. What is kept beside it then says what to go back to; where that
//     is damaged as well, good does. One that was confirmed may write a newer form.
//   - What is put back must be readable, and be the node's own: a ledger that was made
//     anew has another id.
//   - What a newer version has added to a file is read over. What an older one cannot do
//     without has another form, and a version that does not read it is not switched to.
//   - A task's result comes from state.json, by whichever version runs then.
package selfupdate
