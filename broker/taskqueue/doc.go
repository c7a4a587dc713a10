// Package taskqueue is the life of a task at the broker: the checks of a request, the broker's
// additions, the delivery, and the acceptance of a result. The main type is Queue. The package
// keeps tasks in package store and executes none of them.
//
// # Model
//
// queued → dispatched → succeeded | failed | expired | canceled. Enqueue checks the request (the
// type's schema for operators, the node's capabilities, the node's status), adds the params that
// only the broker may fill in, signs the task and stores it. From there on only the signed bytes
// travel: the node refuses a row that was changed later. docs/reference/states.md draws the
// statuses.
//
// Wait hands tasks to a polling node, under a lease that progress renews. An expired lease leads
// back to queued, and the next delivery is attempt+1. Attempts count deliveries, not executions:
// a node runs a task id at most once. Result ends a task, and the first result stands.
//
// # Invariants
//
//   - At most one exclusive task is dispatched per node at a time.
//   - A task that was never delivered expires after not_after; a delivered task never expires. If its node stays
//     silent, a delivered task ends failed with outcome_unknown: store.UnknownGrace after not_after, or after the
//     last renewed lease, if later; a task that may restart the machine after store.RestartGrace.
//   - A node's report about a task after outcome_unknown is stored beside the end and changes nothing about it
//     (late.go). A node without such a report is asked once when it is heard again.
//   - A delivered task is canceled only by its node's result.
//   - A task carried in another answer (wire.CarriedTask) does not count as delivered: a lost answer costs nothing,
//     and the task's result is accepted only after its delivery.
//   - Evidence counts only if the node's certified key signed it for this task, envelope, nonce, node, epoch,
//     outcome and result. A verdict is never better than its findings and its checks: a row of the table of
//     checks that was not made, or is missing in the evidence, is inconclusive.
//   - The effects of a result (effects.go) are applied in the transaction that records the result.
//
// # Waiting
//
// A waiting poll sleeps until a hint names its node. A slow look at the tables runs beside the
// hints, since hints may be lost. No query runs in between.
//
// # Adding a task type
//
// A type that only some node statuses admit gets a line in admission.go; a type with params from
// the broker gets a case in fill.go; a type with effects at the broker gets a case in effects.go.
package taskqueue
