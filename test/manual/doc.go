// Package manual holds the pages for people against the commands that there are: each
// command and each flag that README or a page under docs names exists, and the
// reference of a program's commands is what the program says itself. A program's own
// test hands its tree of commands over.
package manual
