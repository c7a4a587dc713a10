// Package plan carries out the plan of an operation on the node: the steps of one signed task, in
// their order. The main type is Operation; its method Do does the work. The code of each kind of step
// is in package steps.
//
// # Model
//
// Check judges the whole plan before anything runs. Then each step is bound: its arguments get the
// literals of the plan and the outputs of earlier steps, and a digest stands for the step with these
// values. A step that the journal proves done under the same digest is not run again, unless the plan
// says so. Any other step is tried as often as the plan permits:
//
//	open row in the journal → Look → Do → end of the row in the journal
//
// Look decides before each Do: a step that the node proves done is done. A row that the journal has
// open belongs to a process that ended in the middle. It has used one attempt, and Look decides
// whether that attempt has succeeded.
//
// # Invariants
//
//   - An attempt is on the disk before it begins, and its end before the next step begins.
//   - A step is done when Do or Look has returned its proof, and never because something lies there.
//   - Attempts that are used up, and timeouts, end in failed. Only a step with nothing to do on this
//     hardware is skipped.
//   - A cancel or the deadline ends the step that runs, and no other step begins.
//   - When the agent stops, the row stays open, and the agent's next process goes on.
//   - A secret is in the memory of this process alone. The journal, the result and messages have none.
//     Every secret is wiped before Do returns, on every path. A later process asks for a secret again
//     when a step that is still to do needs it.
//
// The package does not verify signatures and does not talk to the broker: the agent does.
package plan
