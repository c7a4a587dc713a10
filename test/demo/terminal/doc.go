// Command terminal shows a shell on a machine without listening ports. The shell is opened through
// the broker, survives a restart of the agent, ends with its program, and is played back. The
// machine is a QEMU guest with its own systemd. The demo leaves nothing behind.
package main
