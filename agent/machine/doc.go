// Package machine reads and changes the machine the agent runs on: /proc,
// /sys, mounts, accounts, units, IPC, block devices, files.
//
// # Model
//
// A Machine is a root directory held open, "/" in the field and a temporary
// directory in tests. Reading and parsing are apart: a method reads a file
// below the root, a function parses its bytes and is tested on text captured
// from real machines.
//
// # Rules
//
//   - A path that a tenant may have touched is never resolved by string. Every
//     open goes through openat2 relative to a directory held open; no symbolic
//     link of a tenant's is followed, no mount is crossed that was not asked
//     for.
//   - No path that a tenant may have touched is looked up in a FUSE file system: its
//     server may never answer, and who waits for it cannot be killed. The walk ends
//     at its mount point with ErrFUSE; a sweep sees a mount point there.
//   - /proc and /sys of the running machine are read from mounts of the agent's own
//     that are in no mount table: whoever was root may have mounted anything over
//     theirs. A process that may not mount reads the machine's.
//   - Nothing is opened for reading before it is known to be a regular file: a
//     FIFO would block and opening a device may act on it.
//   - What comes from a process or a directory entry is bytes chosen by a
//     tenant. It is compared and counted here; whoever reports it cleans it
//     with taskcatalog.Clean.
//   - A thing that could not be read is an error, never an empty list.
package machine
