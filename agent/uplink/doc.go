// Package uplink is the agent's client of the agent API: a method per route, over TLS 1.3 to the
// node's only broker. Its main type is Client. The package does not retry; callers use Pause.
//
// Every unsuccessful answer is a *Refusal with the broker's code. A connection that fails because
// the two clocks disagree returns an error with the offset: see clock.go.
package uplink
