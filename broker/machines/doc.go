// Package machines says what the broker can ask of a machine from outside of its operating system. The
// main type is the interface Power. Packages that speak to one outside system implement the interface:
// redfish, ipmi, and the power records for MAAS. Package machinestest has the conformance suite.
//
// # Rules
//
//   - An answer is what the outside system said, never what was asked for. Accepted is not done: the
//     caller looks again.
//   - A state or an identity that is not understood is unknown. Nothing is guessed.
//   - Each call ends with its context. No call is repeated inside an implementation, because a late
//     repeat could undo what somebody else did since.
//   - A password is in no error, log, argument or environment variable.
//
// The package knows no node, run or site, and opens no connection.
package machines
