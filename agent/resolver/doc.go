// Package resolver maps the steps of tasks to this machine's hardware, and stores the profile sets
// for it. Its main function is Resolve, its main type Store. The package runs nothing:
// agent/command does.
//
// # Model
//
// Resolve is pure: a set, the machine's facts and a step kind give a command profile or a builtin,
// or profile_missing. The Store holds the sets delivered by signed tasks: each version in a file of
// its own, and the version in force in a small file that is replaced by rename.
//
// # How a task uses a step
//
// By the step's kind alone, in any task: resolver.Resolve with the set in force
// (host.Host.Profiles), the node's facts and, for example, gpu.runtime.check. The result is one of
// three: nothing to do here (Nothing); a builtin, which is the task's own code under a name; or a
// command, which command.Runner.Step runs and records. The task decides what a failure means.
// node.gpu_scrub uses the steps of a whole plan; agent/scrub/vendortool.go shows a single check.
//
// # Rules
//
//   - The winning rule decides alone. No rule below it is consulted.
//   - A step that resolves to nothing is profile_missing: it is never guessed, and never
//     taken from another vendor.
//   - A set read back from disk is judged again, like a set from outside. If it fails, the
//     compiled-in minimal set is in force.
//   - kill -9 between any two lines leaves the complete old set or the complete new set in
//     force. A version never changes its content.
package resolver
