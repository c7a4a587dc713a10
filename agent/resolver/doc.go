// Package resolver turns the steps that tasks name into what this machine has,
// and keeps the profiles that say so.
//
// # Model
//
// Resolve is pure: a set, the machine's facts and a step kind give a command
// profile or a builtin, or profile_missing. The Store holds the sets that
// signed tasks brought: each version in a file of its own, and which of them is
// in force in one small file that a rename replaces.
//
// # How a task uses a step
//
// By its kind alone, whichever task it is: resolver.Resolve with the set that is in
// force (host.Host.Profiles), the node's facts and, say, gpu.runtime.check. What
// comes back is one of three: nothing to do here (Nothing), a builtin, which is the
// task's own code under a name, or a command, which command.Runner.Step runs and
// makes the records of. What a failure means is the task's to say. node.gpu_scrub
// takes every step of a plan; agent/scrub/ask.go is all that a check needs.
//
// # Rules
//
//   - The rule that wins decides alone. Nothing is looked up below it.
//   - A step that resolves to nothing is profile_missing: never a guess, and
//     never done the way another vendor does it.
//   - What is read back from disk is judged again, as if it came from outside.
//     What no longer holds is not in force; the compiled-in minimal set is.
//   - kill -9 between any two lines leaves the old set in force or the new one,
//     whole. A version never changes its content.
package resolver
