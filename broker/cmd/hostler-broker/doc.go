// Command hostler-broker is the control plane: it issues certificates, queues signed tasks and
// answers operators.
//
// The program parses its flags, joins the parts of package server, runs, and turns an error into
// one line and an exit status: 0 done, 1 failed, 2 bad usage, 3 refused by policy or state, 4 not
// found.
package main
