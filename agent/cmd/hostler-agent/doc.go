// Command hostler-agent is the program on every node. `run` is the service; `enroll` makes the
// machine a node, once; `status` reads the service's last report about itself, without asking the
// service.
//
// The command only wires: it reads the config file and gives the packages below agent/ their clock,
// their randomness, the machine's root and the network. Errors are printed in a single line `error:
// CODE: what, and what to do`.
package main
