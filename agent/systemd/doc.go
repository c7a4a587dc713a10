// Package systemd asks systemd and logind, over D-Bus, for what the task
// handlers need: to stop and start units, to end a user's sessions, to run a
// program that outlives the agent.
//
// Each call opens a connection and closes it: a handler runs for minutes now
// and then, and a connection kept open for days would have to be watched. A
// host without logind has no sessions; a host without systemd is an error.
package systemd
