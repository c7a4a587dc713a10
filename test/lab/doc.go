// Package lab is a whole small site for tests and demonstrations: the built broker as its own
// process on this machine's loopback, the operator's command line, and room for guests that enrol.
//
// Lab is the main type. A lab lives in one temporary directory, and Close removes the directory.
// The lab uses the programs only by their command lines, as a user would. The exception is
// Identity: the lab itself plays a thief with a node's key.
package lab
