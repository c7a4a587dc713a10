// Package agenttest is a small broker that agents are tested against. It speaks
// the agent API over real mTLS, on connections that are in memory or, with
// Listen, on loopback; leases, attempts and "the first result stands" are the
// real rules. Its fields are the knobs: what it loses, refuses and lies about.
//
// It judges what a node sends as strictly as a broker does, and fails the test
// where a node breaks the contract.
package agenttest
