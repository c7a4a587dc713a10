// Package operation carries out operations: a definition that was bound to inputs becomes one signed task
// on each node of the target. The main type is Chains.
//
// # Model
//
// A run has three stages. check_target holds the target against what its project has now; run_task gives
// each node the task operation.run with the plan, and waits for all; record_result writes what the nodes
// signed. An attempt of an operation is one run, and a run gives a node one task at most: the task's key
// does not change when a stage is called again. A retry is a new run with the next attempt of the same
// plan; nodes go on from the first step that is not done. Only the signatures of the plan are judged anew, if
// their signers have changed.
//
// The nodes come in batches (broker.OperationBatches): a node gets its task when all tasks of the batches before
// its own have ended. How each ended is kept in the state of the run, so that a result is read once. The first
// step of a batch stores that the batch begins; the next one requests its tasks.
//
// A group has several allocations of one project as its members. The members are found once, on the request; each
// check says which are lost. A lost member's nodes are skipped, and the batches are made of the nodes that remain. What
// became of the members is stored with the state of the run, and a node on which nothing more happens is no longer
// locked.
//
// # Rules
//
//   - Where too many nodes have failed, or a canary has, no further batch begins. The tasks under way end by
//     themselves, the operation ends as failed (batch_stopped), and the other nodes were never asked for anything.
//   - A batch begins only if a request for the operation would be permitted then: policy, hour, policy engine and the
//     nodes of the batch are judged afresh. A refusal ends the operation with its code, and the batches before it
//     have ended by themselves.
//   - The target is checked when somebody asks, when the run begins, and whenever run_task is called: also
//     in the step that signs a task. A target that is not the project's any more withdraws the tasks.
//   - A refusal or a failed task ends the operation as failed, and never stops the run for a person: a
//     stopped run would hold the nodes.
//   - An operation has succeeded only if the task of each node that is not skipped did, and has a good row for each
//     step. One whose nodes are all skipped has failed.
//   - A cancel is a mark on the operation, which the stages look at. It withdraws the tasks and waits for their
//     end; an action that cancels the run does the same. If all of them ended well all the same, the
//     operation has succeeded.
//   - Rows, code, status and statement of an operation are written in the transaction that ends its last
//     stage.
//
// What a node reports is cleaned and bounded before it is kept. The package knows no store: Records is its
// port, and package records joins both. Package definition reads definitions, package plan binds inputs.
package operation
