// Package terminaltest is a relay for tests of a session's process: it speaks TLS over TCP,
// checks the node's certificate as a relay does, and otherwise says what the test says.
package terminaltest
