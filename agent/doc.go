// Package agent joins the parts of a node's agent: the node's identity (identity), admission of
// tasks (inbox), the durable record of tasks (ledger), the connection to the broker (uplink) and
// the task handlers (tasks). Its main type is Agent. Package agent contains no task handler and no
// protocol code of its own.
//
// # Model
//
// Five loops run until the agent is stopped. The main loop enrols the node, renews its certificate
// and polls for tasks. The second loop sends results until the broker has acknowledged them. The
// third loop does the housekeeping. The fourth loop signals systemd's watchdog while the main loop
// turns. The fifth loop follows the first boot to its end (firstBoot). Each task runs in a
// goroutine of its own, in its lane:
//
//	deliver → inbox.Admit → ledger.Accept → lane → ledger.Start
//	        → handler → evidence → ledger.Finish → result → ledger.Reported
//
// A key rotation left unfinished by a crash is settled before everything else: until then the node
// does not know which key is its identity, and reports no task outcome (rotate.go).
//
// The answer to an enrolment may carry a task. The task takes the same path before the first poll,
// without an attempt (takeCarried).
//
// Each ledger step is on disk before the next step begins. A kill -9 between any two steps leaves a
// record of everything that may have happened, and the next start acts on this record: see
// recover.go and the crash sweep.
//
// # Rules
//
//   - A task runs at most once. An envelope delivered again gets the recorded
//     result; a task that was started and not finished is resumed where its
//     handler can, and is interrupted otherwise.
//   - An update ends with another start of an agent. Its task stays started, and
//     whichever version starts next waits for the watcher's verdict and reports it
//     (update.go). A version that is not confirmed takes no task.
//   - A handler that does not stop when it must ends the agent, because only a
//     new process can report the task's outcome truthfully.
//   - Work that was done is reported as done, even if a cancel, the deadline or
//     the agent's stop arrived meanwhile.
//   - A result is sent until the broker has acknowledged it. The result of a
//     carried task waits for the task's delivery.
//   - The config file decides what signed tasks may do; no signed task changes
//     the config file.
//   - An unreachable broker is retried with jittered backoff of up to a minute.
//     A Retry-After from the broker is honoured up to five minutes.
package agent
