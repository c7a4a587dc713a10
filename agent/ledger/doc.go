// Package ledger is the agent's crash-safe record: the accepted tasks, how far each came, their
// results, and the marks that must never be lost. Its main type is Ledger. The ledger records and
// does not decide: admission is agent/inbox's task, and execution package agent's.
//
// # Model
//
// A task goes accepted → started → finished. Each step is on disk before the agent acts on it, so
// that after a crash the state says what may have happened:
//
//   - accepted: nothing was done. The broker delivers the task again.
//   - started: something may have been done. The task is reported as interrupted.
//   - finished: the result is recorded, whatever reached the broker.
//
// A task id is accepted at most once. An entry is dropped only when the broker has accepted its
// result, no clock within the allowed skew could still admit its envelope, and a day has passed.
//
// # Rules
//
//   - The file's space is allocated at creation: a full file system does not keep
//     a node from being drained, cleaned and validated.
//   - A ledger has a form. An agent refuses a ledger of a form it does not read, and
//     no switch is made to a version that would not read it. Fields added by a newer
//     agent in the same form are ignored.
//   - A ledger gets a random id when it is created, so that a deleted and recreated
//     ledger is recognised as another ledger.
//   - A damaged ledger is an error, never an empty ledger.
//   - Results are kept as they were signed; the attempt is filled in when sent.
package ledger
