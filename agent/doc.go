// Package agent joins the parts of a node's agent: who the node is (identity),
// what may run (inbox), what it remembers (ledger), how it reaches its broker
// (uplink), and what it can do (tasks).
//
// # Model
//
// Four loops run until the agent is stopped. The main loop makes the node a
// member, keeps its certificate in force and waits for tasks; another sends
// results until the broker has them; one keeps house; one tells systemd that the
// main loop turns. Each task runs in a goroutine of its own, in its lane:
//
//	deliver → inbox.Admit → ledger.Accept → lane → ledger.Start
//	        → handler → evidence → ledger.Finish → result → ledger.Reported
//
// A rotation of the node's key that a crash has left comes before all else: until it
// is settled the node does not know who it is, and says nothing of what became of
// its tasks (rotate.go).
//
// The answer to an enrolment may carry a task: it goes the same way before the
// first poll, without an attempt (takeCarried).
//
// The ledger's steps are on disk before what follows them. kill -9 between any
// two leaves a state that says what may have happened, and the next start acts on
// that: see recover.go and the crash sweep.
//
// # Rules
//
//   - A task runs at most once. An envelope delivered again gets the recorded
//     result; a task that was started and not finished is interrupted.
//   - An update ends with another start of an agent. Its task stays started, and
//     whichever version starts next waits for the watcher's verdict and reports it
//     (update.go). A version that is not confirmed takes no task.
//   - A handler that does not stop when it must ends the agent, because only a
//     new process can say truly what became of the task.
//   - Work that was done is reported as done, whatever was asked meanwhile.
//   - A result is sent until the broker has it. That of a carried task waits for
//     the task's delivery.
//   - The config file decides what signed tasks may do; nothing signed does.
//   - A broker that is away is waited for, with pauses that grow to a minute and
//     are jittered. What it asks for with Retry-After is honoured up to five.
package agent
