// Package unit is the agent's side of terminal sessions. Each session is a transient unit of
// systemd, started by the agent and independent of it from then on. The main type is Sessions. The
// session itself runs in packages process and terminal.
//
// # Invariants
//
//   - A session's unit is named after the session, and its description names its user. The
//     running sessions are read from systemd each time; there is no record that a crash
//     could lose.
//   - A session outlives the agent, the agent's restart and its update: the unit has a cgroup
//     of its own in a slice of its own, and depends on no other unit.
//   - Stopping the unit ends all its processes: they are terminated and hung up, and killed
//     after a while. The runtime directory goes with the unit. The post-stop
//     program ends the login, and reports a killed process to the broker.
//   - Starting the same unit again finds the running unit. A repeated task therefore hands
//     over once more, and does nothing else twice.
//   - A session that has begun, according to the broker, is never started again: without
//     a process the session is gone.
//   - A session that was started for a failed handover is stopped.
package unit
