// Package taskqueue is the life of a task at the broker: who may ask for what,
// what the broker adds, who gets it when, and what a result is believed.
//
// # Model
//
// queued → dispatched → succeeded | failed | expired | canceled. Enqueue checks
// the request (the type's schema as an operator sees it, what the node says it
// can do, the node's status), completes it with what only the broker may fill
// in, signs it and stores it. From there on nothing but a signature's bytes
// travels: a row changed later is refused by the node.
//
// Wait hands tasks to a node that asks, under a lease that progress renews. A
// lease that runs out leads back to queued and the next delivery is attempt+1;
// attempts count deliveries, not runs, as a node runs a task id at most once.
// Result ends a task, and the first result stands.
//
// # Invariants
//
//   - At most one exclusive task is dispatched per node at a time.
//   - A task that was never delivered expires after not_after; one that was
//     delivered never does. If its node stays silent it ends failed with
//     outcome_unknown: store.UnknownGrace after not_after, or after the last
//     lease that progress renewed where that is later.
//   - What a node says of a task after it ended outcome_unknown is kept beside that
//     end and changes nothing about it (late.go). If it says nothing of its own, it
//     is asked once when it is heard again.
//   - A task that was delivered is canceled only by its node's word.
//   - A task that an answer carries beside (wire.CarriedTask) is not delivered by
//     that: a lost answer costs nothing, and its result is taken after its delivery.
//   - Evidence counts only if the node's certified key signed it for this task,
//     envelope, nonce, node, epoch, outcome and result. A verdict is never
//     better than its findings and its checks: a row of the table of checks that
//     was not made, or that the evidence leaves out, is inconclusive.
//   - What follows from a result (effects.go) is applied in the transaction
//     that records it.
//
// # Waiting
//
// A waiting poll sleeps until a hint names its node, with a slow look at the
// tables beside it, since hints may be lost. No query runs in between.
//
// # Adding a task type
//
// A type that only some statuses of a node admit gets a line in admission.go;
// one that the broker completes a case in fill.go; one that changes something
// at the broker a case in effects.go.
package taskqueue
