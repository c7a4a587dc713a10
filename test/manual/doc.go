// Package manual compares the documentation with the programs' commands: each command and each flag
// named in README or a page under docs exists, and the reference of a program's commands matches
// the program's own help. A program's own test passes its tree of commands. Other generated pages are
// held by Hold.
package manual
