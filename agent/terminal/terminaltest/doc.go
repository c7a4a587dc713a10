// Package terminaltest is a relay for tests of a session's process: Relay speaks TLS over TCP,
// checks the node's certificate as a relay does, and otherwise sends only what the test sends.
package terminaltest
