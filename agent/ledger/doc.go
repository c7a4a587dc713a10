// Package ledger is what an agent remembers across kill -9: which tasks it took,
// how far they came, what became of them, and what it promised never to forget.
//
// # Model
//
// A task goes accepted → started → finished. Each step is on disk before it is
// acted on, so that after a crash the state says what may have happened:
//
//   - accepted: nothing was done. The broker delivers it again.
//   - started: something may have been done. It is reported as interrupted.
//   - finished: it was done, and this is the result, whatever the broker heard.
//
// A task id is accepted at most once. An entry is dropped only when its result
// was accepted by the broker, no clock within the allowed skew could still let
// its envelope in, and a day has passed.
//
// # Rules
//
//   - The file's space is allocated when it is made: a full file system does not
//     keep a node from being drained, cleaned and validated.
//   - It has a form. One that this agent does not read is refused as it is, and a
//     version of the agent that would not read it is not switched to. What a newer agent
//     adds in the same form is read over.
//   - It has an id, from when it was made: one that was made in its place is not it.
//   - A damaged ledger is an error, never an empty one.
//   - Results are kept as they were signed; the attempt is filled in when sent.
package ledger
