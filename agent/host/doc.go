// Package host holds everything that a task handler may touch on its node.
//
// Host joins the parts: the machine, systemd, the accounts of allocations, resolver profiles, GPUs,
// terminals, the agent's own versions. Run is a running task with its parameters and its Host. The
// agent fills both; the handlers of package tasks use them; tests replace single parts.
//
// # Invariants
//
//   - Every change to the node goes through Host, so that a test on a directory of its own touches
//     nothing else.
//   - System tools are run by argv with a fixed environment and bounded output, never by a shell.
//   - A uid between FirstUID and LastUID belongs to allocation users, each uid once.
//
// The package knows no task type and does not decide how a task runs.
package host
