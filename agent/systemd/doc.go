// Package systemd calls systemd and logind, over D-Bus, for the task handlers: it stops and starts
// units, ends a user's sessions, and runs programs that outlive the agent. Its main type is Bus.
//
// Each call opens a connection and closes it: handlers run for minutes at long intervals, and a
// connection open for days would have to be monitored. A host without logind has no sessions; a
// host without systemd is an error.
package systemd
