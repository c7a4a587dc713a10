// Package plan makes the plan of an operation: a definition with its inputs and the bounds of the
// policy become a taskcatalog.OperationPlan, which one signed task carries to a node. The only
// function is Make.
//
// # Rules
//
//   - A plan has nothing to look up but secrets and outputs of earlier steps. A value of an input goes
//     into an argument whole and with its type; it never becomes a part of another text.
//   - Every value is held against the form of its argument again, because an input may be the name of a
//     file, and against the command profile that takes it.
//   - Every source, and every scope of a credential, is on the definition's list and on the policy's.
//     The plan lists only the sources that its steps use.
//   - A policy narrows a definition and never widens it.
//   - An input that is left out takes its argument with it. The definition permits that for optional
//     arguments alone.
//
// The package reads no clock and no store. The same arguments give the same plan. Error messages name
// inputs and steps, and never the value of an input.
package plan
