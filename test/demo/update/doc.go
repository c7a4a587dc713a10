// Command update shows two releases of the agent: a good release that is rolled out, and a release
// that does not start and that the node itself rolls back, without the broker. The registry is
// Debian's docker-registry, the machine is a QEMU guest with its own systemd. The demo leaves
// nothing behind.
package main
