// Package servertest runs a whole broker in the test's process, on loopback ports of its own, and
// gives the test an operator's client and nodes that speak the wire. No part is a stand-in: TLS,
// tokens, store and keys belong to a broker started for the first time.
package servertest
