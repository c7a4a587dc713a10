// Package statement makes and verifies statements of operations: what an operation did to its nodes, in
// one file that a third party can check without a broker. The main type is Operation; Issue signs and Verify
// checks. The package reads no database and no network.
//
// # Model
//
// A statement is a DSSE envelope with one signature by the statement key over an in-toto statement. Its
// predicate (Operation) names the definition and the inputs by digest, and each task of one attempt
// with the evidence that the node signed, the result that the evidence names by digest, and the node's
// certificate. The result has a row for each attempt of each step: kind, profile, artifact, outcome.
//
// # Rules
//
//   - Steps follow from the proofs, and no status is better than theirs (StatusOf). A statement that
//     says something else is refused, whoever signed it.
//   - A task without evidence proves nothing: it never makes an operation a success.
//   - The node's result repeats the plan's operation and digests, so that evidence of another operation,
//     definition or input is refused.
//   - Inputs are named by their digest alone. They may be a tenant's.
//
// A receipt (Receipt) is the tenant's version: the steps by kind, digest and outcome, without a word about
// nodes and sites. It has no proofs, and names the statement by digest.
//
// A statement proves what the agent of the node reported. It does not prove that the node's system was
// honest towards its agent.
package statement
