// Package fleet is thousands of nodes in one process, for benchmarks and for tests that break
// things. Fleet is the main type.
//
// To the broker they are nodes: each has its own key and identity, enrols over the wire with its
// own token, uses the agent's own client (agent/uplink), checks its tasks with the agent's own
// checks (agent/inbox: signature, addressee, validity, replay, catalog), and signs its evidence. No
// machine stands behind a node: a Script decides each task's end. With a broker on this machine
// each node uses its own loopback address, because the broker counts attempts by address.
//
// A process has a limit of descriptors, and the memory and processor time of a fleet must not count
// as a broker's. So a fleet is a process of its own (Start): a program or a test binary that calls
// Serve first.
package fleet
