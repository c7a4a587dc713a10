// Command terminal tells of a shell on a machine that listens on nothing: it is opened
// through the broker, outlasts its agent, ends with its program, and is played back. The
// machine is a QEMU guest, systemd is its own. It leaves nothing behind.
package main
