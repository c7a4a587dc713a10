// Package taskcatalog is what the broker and the agent agree on: the types of
// task, what each may be asked and answers, the signed payload that carries
// one, and the evidence that comes back. It is pure data and does no I/O.
//
// # Model
//
// A task type is a row of the table in catalog.go: name and version (one
// never changes its meaning under the same version), class, lane, deadline,
// required capabilities, and the Go types of its params and its result. JSON
// Schema is made from those Go types, so that the operator API, the broker
// and the node judge by the same text.
//
// # Rules
//
//   - The params a node sees are data. Nothing in them is a command.
//   - What only the broker may fill in (a baseline, a trust bundle) is listed
//     in Type.BrokerFills and refused from an operator.
//   - Names, codes and enumerations are wire names. Renaming one is a new
//     version of the type.
//   - Everything a node reports is untrusted text: Clean bounds and escapes
//     it before it is stored or shown.
//
// # Adding a task type
//
//  1. One file node_NAME.go or allocation_NAME.go with params, result, and a
//     variable of type Type.
//  2. One line in the table of catalog.go.
//  3. go test ./taskcatalog -update, and read the golden's diff.
//  4. A handler of the same file name in agent/tasks, one line in its table.
package taskcatalog
