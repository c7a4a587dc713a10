// Package unit is the agent's side of terminal sessions: each is a transient unit of systemd,
// started by the agent, and no part of it from then on.
//
// # Invariants
//
//   - A session's unit is named after it, and its description says of whom it is: what runs
//     is read off systemd each time, and nothing is remembered that a crash could lose.
//   - A session outlives the agent that started it, its restart and its update: it has its
//     own cgroup in a slice of its own, and hangs on no other unit.
//   - Stopping it ends all that it started: terminated and hung up, and killed after a
//     while. Its runtime directory goes with it, and who comes last ends its login, and tells
//     the broker where its process was killed.
//   - The same unit started again is the one that runs. So a task that is repeated hands
//     over once more, and does nothing else twice.
//   - A session that has begun, as the broker says, is never started again: where its
//     process is gone, so is the session.
//   - A session that was started for a handover which failed is stopped.
package unit
