// Package chain runs lists of stages that take hours, outlive the process and
// are watched by people: onboarding a machine, turning one over.
//
// # Model
//
// A Chain is a value: a kind and an ordered list of stages over one typed
// state. A run is one row: a cursor (the name of a stage), a direction, the
// state as JSON, when it is due, a version and a lease. The Engine claims a due
// run, calls one function once, and saves row, events, effects and messages in
// one transaction. Between two steps nothing lives in memory: no goroutine, no
// channel, no sleep. An operator's action moves the cursor and nothing else; all
// knowledge of what is already so is in the stages, because they must look
// anyway.
//
// A stage looks (Done), works (Do) and takes back (Undo). It says how it went by
// what it returns:
//
//	nil               done
//	Again(d, reason)  not yet: no attempt is spent, no event written; bounded by the stage's Limit
//	AgainFor(class, …) the same, where something fails meanwhile: at the limit the stage has failed of that
//	Fail(class, …)    an attempt failed; the table of classes says what that leads to
//	Hold(reason)      the whole site cannot be reached: no attempt, and the clocks of its stages stand still
//	another error     Fail(upstream_transient); so is a panic
//
// The three kinds of stage are three ways to make a Do: a function; Wait(look);
// and a typed task on the node, enqueued under Run.Key, which is the same for
// each call of one attempt and for no other, and then waited for with Again.
//
// # Two words for where a run is
//
// Direction (forward, undo) is apart from status, so a failed undo is retried
// like any stage and never resumes forwards.
//
//	pending       to be claimed; nothing has begun since it was asked for
//	running       forward, between two steps or in one
//	compensating  undo, the same
//	failed_retryable, failed_manual_intervention   stopped; an operator's action moves it on
//	completed, cancelled, reconciled               ended, for good
//
// A run is live until it has ended, and a live run holds its locks.
//
// # On the main line and off it
//
// Success moves the cursor to the next stage. A failure that is not retried
// enters the stage's Rescue, if it has one and the class allows it; the last
// rescue stage's Then names the stage to go on with. On the happy path a rescue
// is not there. It is bounded by what it returns: the first rescue stage looks at
// Run.Failure and fails with it when there is nothing to rescue. A rescue that fails
// stops the run for a person, whatever its class. A failure of an
// Optional stage is recorded, and the run goes on.
//
// Undo starts at the furthest stage the run has reached, in this pass or an
// earlier one whose work a stage has not done anew since (Run.Anew), takes it back as
// well (it may be half done; Undo looks before it acts), and walks to the first. It
// stops before a Pivot that has been passed; restart_clean goes on past it, and then
// forward.
//
// # Attempts and events
//
// Attempts of a stage are numbered through for the whole run, in each direction;
// what a policy counts are those since the stage was entered, or an operator
// asked for it again. Each has one event started, written by the claim, and one
// that ends it: succeeded, skipped (Done held, Do was not called), failed,
// compensated. Unique keys hold that. Events, messages and the run itself
// (requested, started, completed, updated) carry the time at which their
// transaction wrote them, when all it had to wait for was behind it; not when the
// step began.
//
// # Invariants
//
//   - No two steps of a run at once: a step needs the lease, and every claim
//     raises the version. A save names the version it was claimed with; an older
//     one changes nothing (ErrLost).
//   - A step knows when to stop: its context ends 10 s before its lease, by this
//     machine's own clock counted from before the claim. A renewal that is
//     refused ends it at once.
//   - Asking for a cancel never loses a step in flight: the request is a column
//     beside the fence, and a save that finds it makes the run due at once.
//   - A step's state, event, effects, locks and messages are there together or
//     not at all.
//   - A run ends in a status that tells the truth: cancelled only when every undo
//     it owed succeeded, completed only when the last stage did.
//
// # What a crash leaves
//
// Kill -9 between any two instructions leaves either a claimed run, whose lease
// runs out and which is called again with the same attempt and key, or a saved
// one. So a stage is called at least once: it looks, then acts. If the outside
// was changed and the save was lost, Done says so and the stage is skipped; the
// effects and messages that Do asked for were lost with that save. A stage that
// needs both looks at both in Done, or asks for them there. What a step asked others
// to do may still be under way when its broker is gone: Run.LostAt is until when such a
// step may have been at work last, from the lease that ran out, and costs no write of
// its own. An attempt whose end
// was not heard of several times stops the run for a person: a stage must not end
// brokers for ever.
//
// # Holds
//
// A hold says that no stage begins at a site: freeze is an operator's, and
// unreachable a stage's (Hold). Table chain_holds keeps them, an empty site being all;
// whoever builds the stop button calls the store's PlaceHold and LiftHold, and
// every claim obeys. Steps in flight finish. Stage clocks stand still: a limit is
// compared with the time since the stage was entered, less the union of the
// holds in it (Stood), and a stage reads a clock of its own in the same way
// (Run.Since). That is worked out, not stored, so a crash can lose nothing. An unreachable site is tried by one run at a time, by the chain's Probe, first by those that
// were held; when one of those gets through, or another says that the site has
// answered (Reached), the mark is lifted. Whenever a hold is
// lifted the runs go on spread over SpreadOver, each at its place.
//
// # Batches
//
// A batch is a row: how many runs of batches may be moving at its site for one of its
// own to begin, so that two batches do not move twice as many, and after how many
// failures in a row at one stage and class it begins no more. Both are
// conditions of the claim of a pending run. A run that is stopped for a person
// takes no place.
//
// # Names are stored
//
// Stages, kinds and classes are stored as they are spelled. A run also keeps the
// name of the list that it began with (Record.List: a digest of the stages' names and
// places), and goes on by that list to its end, also when it is taken back: a release
// that changes a list keeps the one before in Chain.Former until no run of it can be
// under way. The name holds the form of the state as well (Chain.Form), and follows it
// to the newest at the first save. An engine claims only runs of lists that it knows, so
// brokers of two releases run side by side and none steps over a stage of the other's, or
// stops for what the other has written. A run that has
// begun and that nobody knows is stopped for a person after Strange (list_unknown), as
// is one whose state cannot be read whole (state_unreadable). A run from before lists
// were kept goes by the list in force; if its stage is not in that, it is stopped
// (stage_unknown).
//
// The kind is also the
// prefix of a chain's messages: node.onboarding makes node.onboarding.started, and so
// does node.decommission of node.decommission/reimage: lists that people know as one
// have one prefix.
// State holds references to secrets, never secrets.
package chain
