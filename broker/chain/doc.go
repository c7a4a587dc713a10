// Package chain runs lists of stages that take hours, outlive the process and are watched by
// people: onboarding a machine, turning a machine over. The main types are Chain (the list),
// Engine (executes runs) and Store (keeps runs). The package knows no node, task or MAAS: stages
// do that work.
//
// # Model
//
// A Chain is a value: a kind and an ordered list of stages over one typed state. A run is one
// row: a cursor (the name of a stage), a direction, the state as JSON, a due time, a version and
// a lease. The Engine claims a due run, calls one function once, and saves row, events, effects
// and messages in one transaction. Between two steps nothing lives in memory: no goroutine, no
// channel, no sleep. An operator's action moves the cursor and nothing else. Only stages know
// which work is already done, because stages must look anyway.
//
// A stage looks (Done), works (Do) and takes back (Undo). Its return value reports the outcome:
//
//	nil               done
//	Again(d, reason)  not yet: no attempt is spent, no event written; bounded by the stage's Limit
//	AgainFor(class, …) the same during a failure of something else: at the limit the stage fails with that class
//	Fail(class, …)    an attempt failed; the table of classes decides what follows
//	Hold(reason)      the whole site cannot be reached: no attempt, and the clocks of its stages stand still
//	another error     Fail(upstream_transient); a panic counts the same
//
// A Do that waits looks once, and returns Again until what it waits for is there. A Do that needs
// the node enqueues a typed task under Run.Key and waits for the task in the same way. Run.Key is
// the same for each call of one attempt and for no other attempt.
//
// # Direction and status
//
// Direction (forward, undo) is separate from status, so a failed undo is retried like any stage
// and never resumes forwards. docs/reference/states.md draws the statuses.
//
//	pending       to be claimed; nothing has begun since the request
//	running       forward, between two steps or in a step
//	compensating  undo, the same
//	failed_retryable, failed_manual_intervention   stopped; an operator's action moves the run on
//	completed, cancelled, reconciled               ended, for good
//
// A run is live until it has ended, and a live run holds its locks.
//
// # On the main line and off it
//
// Success moves the cursor to the next stage. A failure that is not retried enters the stage's
// Rescue, if there is a rescue and the class allows it. The last rescue stage's Then names the
// stage to go on with. On the happy path no rescue stage runs. The first rescue stage looks at
// Run.Failure and fails with the same failure if there is nothing to rescue; this bounds the
// detour. A rescue that fails stops the run for a person, whatever its class. A failure of an
// Optional stage is recorded, and the run goes on.
//
// Undo starts at the furthest stage that the run has reached. Stages reached in an earlier pass
// count, unless a stage has since done its work anew (Run.StartOver). Undo takes the furthest stage
// back as well, because the stage may be half done, and walks to the first stage. Undo stops
// before a Pivot that has been passed. restart_clean goes on past the pivot, and then forward.
//
// # Attempts and events
//
// Attempts of a stage are numbered through for the whole run, in each direction. A retry policy
// counts only the attempts since the stage was entered or an operator asked for a retry. Each
// attempt has one event started, written by the claim, and one event that ends the attempt:
// succeeded, skipped (Done held, Do was not called), failed, compensated. Unique keys enforce
// this. Events, messages and the run's own times (requested, started, completed, updated) carry
// the time at which their transaction wrote them, after all waits inside the transaction; not the
// time at which the step began.
//
// # Invariants
//
//   - Two steps of a run never overlap: a step needs the lease, and every claim raises the version (the
//     fence). A save names the version of its claim; a save with an older version changes nothing (ErrLost).
//   - A step stops in time: its context ends 10 s before its lease, by this machine's own clock counted
//     from before the claim. A refused renewal ends the context at once.
//   - A request to cancel never loses a step in flight: the request is a column beside the fence, and a
//     save that finds the request makes the run due at once.
//   - A step's state, event, effects, locks and messages are stored together or not at all.
//   - A run's final status is true: cancelled only when every owed undo succeeded, completed only when the
//     last stage succeeded.
//
// # What a crash leaves
//
// Kill -9 between any two instructions leaves either a claimed run or a saved run. The lease of a
// claimed run expires, and the run is called again with the same attempt and key. So a stage is
// called at least once: it looks, then acts. If the outside was changed and the save was lost,
// Done reports the goal and the stage is skipped; the effects and messages that Do asked for were
// lost with the save. A stage that needs both looks at both in Done, or asks for them there. Work
// that a step requested from others may still be under way after its broker died. Run.LostAt is
// the latest time at which such a step may have been at work, taken from the expired lease, at no
// write of its own. An attempt whose end was lost several times stops the run for a person, so
// that a stage cannot kill brokers for ever.
//
// # Holds
//
// A hold prevents stages from beginning at a site: freeze is an operator's hold, and unreachable
// is a stage's (Hold). Table chain_holds keeps the holds; an empty site means all sites. A stop
// button calls the store's PlaceHold and LiftHold, and every claim obeys. Steps in flight finish.
// Stage clocks stand still: a limit is compared with the time since the stage was entered, less
// the union of the holds in that time (HeldTime). A stage reads its own clock in the same way
// (Run.Since). The difference is computed, not stored, so a crash can lose nothing. An
// unreachable site is tried by one run at a time, by the chain's Probe, first by runs that were
// held. When a held run gets through, or another run reports an answer from the site (Reached),
// the hold is lifted. Whenever a hold is lifted, the runs go on spread over SpreadOver, each at
// its place.
//
// # Batches
//
// A batch is a row with two limits. The first is how many batch runs may be moving at the site
// before a run of this batch begins, so that two batches do not move twice as many. The second is
// the number of failures in a row at one stage and class after which the batch begins no more
// runs. Both are conditions of the claim of a pending run. A run that is stopped for a person
// takes no place.
//
// # Names are stored
//
// Stages, kinds and classes are stored as they are spelled. A run also keeps the name of its list
// (Record.List: a digest of the stages' names and places), and continues with that list to its
// end, also in undo. A release that changes a list keeps the previous list in Chain.Former until
// no run of the previous list can be under way. The name includes the form of the state
// (Chain.Form), and moves to the newest form at the first save. An engine claims only runs of
// known lists. So brokers of two releases run side by side: neither skips a stage of the other,
// nor stops for state that the other has written. A run that has begun and whose list no broker
// knows is stopped for a person after Strange (list_unknown). A run whose state cannot be read
// whole is stopped too (state_unreadable). A run older than list names uses the list in force; if
// its stage is not in that list, the run is stopped (stage_unknown).
//
// The kind is also the prefix of a chain's messages: node.onboarding makes
// node.onboarding.started. The part before a slash counts, so node.decommission/reimage makes
// node.decommission.started: people know these lists by one name. State holds references to
// secrets, never secrets.
package chain
