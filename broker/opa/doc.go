// Package opa asks an Open Policy Agent whether an operation may run. The main type is Engine.
//
// # Rules
//
//   - The engine gets the facts that conditions get (broker.OperationFacts), and nothing else.
//   - Only the answer {"result": {"allow": true}} permits, without a key more. Every other answer denies,
//     and so does an engine that cannot be asked.
//   - An answer holds for the facts that were asked about, by their digest, and for ten seconds. A denial
//     is not kept.
//   - A request has a time, an answer a size. No redirect is followed, and no proxy of the environment is
//     used. Nothing is tried twice.
//   - Whoever is denied reads nothing of where the engine is, or why it cannot be asked: Trouble has that,
//     for the platform.
package opa
