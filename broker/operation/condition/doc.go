// Package condition judges the conditions of the policy of operations: expressions in CEL over plain facts
// of an execution. The main type is Judge.
//
// # Rules
//
//   - An expression sees the variables of the table and nothing else, each with its type. Check refuses
//     what does not compile to a bool, with line and column.
//   - Reading and judging are bounded: length, nesting, number of parts, size of a regular expression,
//     cost. No expression has a loop without an end.
//   - An expression that fails or costs too much is an error, never true.
//
// The package is the only user of cel-go.
package condition
