// Package machine reads and changes the machine on which the agent runs: /proc, /sys, mounts,
// accounts, units, IPC, block devices, files. The package judges nothing: agent/validate decides
// whether a machine is clean.
//
// # Model
//
// A Machine is a root directory held open: "/" in the field, a temporary directory in tests.
// Reading and parsing are separate: a method reads a file below the root, and a function parses the
// bytes. The function is tested on text captured from real machines.
//
// # Rules
//
//   - A path that a tenant may have touched is never resolved as a string. Every open goes through
//     openat2, relative to a directory held open. No symbolic link of a tenant is followed. No mount
//     is crossed unless the caller asked for the mount.
//   - No path that a tenant may have touched is looked up in a FUSE file system: the FUSE server may
//     never answer, and a process that waits for the server cannot be killed. The walk ends at the
//     mount point with ErrFUSE; a sweep sees a mount point there.
//   - /proc and /sys of the running machine are read from the agent's own mounts, which are in no
//     mount table: a former root may have mounted anything over the machine's /proc and /sys. A
//     process that may not mount reads the machine's.
//   - Nothing is opened for reading before it is known to be a regular file: opening a FIFO would
//     block, and opening a device may act on the device.
//   - Names from a process or a directory entry are bytes chosen by a tenant. This package compares
//     and counts them; the caller cleans them with taskcatalog.Clean before a report.
//   - A failed read is an error, never an empty list.
package machine
