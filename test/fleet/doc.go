// Package fleet is thousands of nodes in one process, for benchmarks and for tests that
// break things.
//
// They are nodes as the broker sees one: each has a key and an identity of its own and
// enrols over the wire with a token of its own, speaks by the agent's own client (agent/uplink),
// has what it is given judged by the agent's own checks (agent/inbox: signature, addressee,
// validity, replay, catalog), and signs its evidence. There is no machine behind them: what
// becomes of a task a Script says. On a broker of this machine each speaks from a loopback
// address of its own, as the broker counts attempts by address.
//
// A process may hold so many descriptors, and a fleet's memory and processor time are not a
// broker's: so a fleet is a process of its own (Start), which a program or a test binary
// turns into where it calls Serve first.
package fleet
