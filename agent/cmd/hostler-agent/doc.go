// Command hostler-agent is what runs on every node. `run` is the service;
// `enroll` makes the machine a node, once; `status` reads what the service
// last said of itself, and asks nobody.
//
// The command only wires: it reads the config file and gives the packages
// below agent/ their clock, their randomness, the machine's root and the
// network. Errors are printed as one line `error: CODE: what, and what to do`.
package main
