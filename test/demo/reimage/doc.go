// Command reimage tells what becomes of a node whose tenant had root: it gets a fresh
// system on the same machine, while its old one knocks from elsewhere; MAAS's word and
// a drive's are checked on the file that the drive is; somebody releases the machine
// behind the broker's back; and in the end it leaves the fleet. MAAS is simulated, the
// machine is a QEMU guest with an NVMe drive, and all else is real. It leaves nothing
// behind.
package main
