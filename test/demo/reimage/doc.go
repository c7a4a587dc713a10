// Command reimage shows the end of a node whose tenant had root. The machine gets a fresh system
// while the old system tries to connect from elsewhere. The claims of MAAS and of a drive are
// checked in the drive's backing file. Somebody releases the machine behind the broker's back. In
// the end the node leaves the fleet. MAAS is simulated, the machine is a QEMU guest with an NVMe
// drive, and everything else is real. The demo leaves nothing behind.
package main
