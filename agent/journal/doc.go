// Package journal is the agent's log: zap, written to the systemd journal with its fields if the
// agent runs as a service, and to standard error otherwise. New returns the logger.
//
// A line says what happened and to which object (node=… task=…). In the journal the same fields can
// be searched as HOSTLER_NODE, HOSTLER_TASK and so on. Text is cleaned, so that names chosen by a
// tenant do not reach a terminal unchanged. The package does not rotate or store logs.
package journal
