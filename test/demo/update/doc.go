// Command update tells what becomes of two releases of the agent: one that is good, and
// is rolled out; and one that does not come up, and is put back by the node itself,
// without a broker's word. The registry is Debian's docker-registry, the machine is a
// QEMU guest, systemd is its own. It leaves nothing behind.
package main
