// Package agenttest is a small broker for tests of agents. Broker speaks the agent API over real
// mTLS, on connections in memory or, with Listen, on loopback; leases, attempts and "the first
// result stands" follow the real rules. Its fields are the knobs: answers to lose, requests to
// refuse, lies to tell.
//
// The broker judges a node's requests as strictly as a real broker, and fails the test if a node
// breaks the contract.
package agenttest
