// Package lab is a whole small site for tests and demonstrations: the built
// broker as a process of its own on this machine's loopback, the operator's
// command line beside it, and room for guests that enrol with it.
//
// A lab lives in one temporary directory and leaves nothing behind. It knows
// the programs only by their command lines, as a user would; what a thief does
// with a node's key it does itself.
package lab
