// Package journal is the agent's log: zap, written to the systemd journal with
// its fields where the agent runs as a service, and to standard error otherwise.
//
// One line says what happened and to what (node=… task=…); in the journal the
// same fields can be searched as HOSTLER_NODE, HOSTLER_TASK and so on. Text is
// cleaned: what a tenant named does not reach a terminal as it is.
package journal
