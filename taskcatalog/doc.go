// Package taskcatalog defines what the broker and the agent agree on: the task types with their
// params and results, the signed Task payload, and the Evidence that a node returns. The package is
// pure data and does no I/O.
//
// # Model
//
// A task type (Type) is a row of the table in catalog.go: name, version, class, lane, deadline,
// required capabilities, and the Go types of the params and the result. A name and version never
// change their meaning. JSON Schemas are generated from the Go types, so the operator API, the
// broker and the node validate against the same schema.
//
// # Rules
//
//   - The params that a node receives are data. Nothing in them is a command.
//   - Params that only the broker may fill in (a baseline, a trust bundle) are listed in
//     Type.BrokerFills. An operator who sends them is refused.
//   - Names, codes and enumerations are wire names. Renaming one requires a new version of the
//     type.
//   - Everything that a node reports is untrusted text. Clean bounds and escapes the text before
//     the broker stores or shows it.
//
// # Adding a task type
//
//  1. One file node_NAME.go or allocation_NAME.go with params, result, and a variable of type
//     Type.
//  2. One line in the table of catalog.go.
//  3. go test ./taskcatalog -update, and read the golden's diff.
//  4. A handler of the same file name in agent/tasks, one line in its table.
//
// docs/contribute/first-changes.md has the whole list: the goldens and tests that follow.
package taskcatalog
