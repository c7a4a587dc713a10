// Package steps carries out the steps of an operation's plan on the node: one file for each kind of
// taskcatalog.StepKinds, and one for each kind of cluster that a node joins. The main types are Kind and Step; Lookup finds the code of a kind.
//
// # Model
//
// A kind has a Look and a Do. Look reports what the node proves: the step is done, or it is not known
// to be. Do changes the node, and returns the proof. Package plan calls both, bounds their time, counts
// attempts, and records what they return.
//
// # Rules
//
//   - Only content, state or an answer proves that a step is done; the presence of a file never does.
//   - Do may run again after a crash at any point of an earlier Do.
//   - A step writes only below the root that its plan names, and opens no path that a link leads away.
//   - A secret is read from its handle when it is used. It goes into no argument of a program, no file,
//     no message and no record.
//   - Programs are run by argv with a fixed environment, never by a shell.
//
// The package knows no task, no order of steps and no broker.
package steps
