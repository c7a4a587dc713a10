// Package definition reads and checks the definitions of operations: what somebody may have done to a
// node, as data. The main type is Definition.
//
// # Model
//
// A definition is one YAML file: an operation with its version, the JSON Schema of its inputs, ordered
// steps of the kinds in taskcatalog.StepKinds, the sources of its artifacts, the capabilities that a node
// must have, and the command profiles of its steps. The broker makes a plan of a definition and inputs;
// no node ever sees a definition.
//
// # Rules
//
//   - A faulty file gives no Definition, but all its problems at once, each with file, line and code.
//   - A value goes into a step whole, from an input or from an earlier step. Nothing is pasted into a
//     text. The definition itself gives every program, template and directory.
//   - Whatever brings something to a node names the digest of its content and a source on the list.
//   - A secret comes from a step credential.mint, and goes only into an argument of its type.
//   - Definition.Encode is the canonical JSON; Digest is the digest of exactly this JSON. A version never
//     changes once it is active.
//
// The package stores nothing and runs nothing.
package definition
