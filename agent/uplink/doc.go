// Package uplink is the agent's side of the agent API: one method a route, over
// TLS 1.3 to the one broker the node knows.
//
// Every answer that is no success is a *Refusal with the broker's code. A
// connection that fails because the two clocks disagree says so, with the
// offset: see clock.go.
package uplink
