// Package erase erases the local disks named by a task, and reports truthfully what was done to
// each disk. Its main type is Erase. The package erases whole disks only, and never a disk in use.
//
// # Model
//
// A run has two halves. The first half writes nothing: it finds every disk of the task by its
// names, judges it and opens it for this process alone. A single reason against a single disk ends
// the whole task. In the second half each disk, or each NVMe controller with its namespaces, goes
// through its methods from the best to the least until a method runs to its end: NVMe sanitize,
// format with an erase setting, overwrite; ATA enhanced and plain security erase, overwrite; or
// only discard, if the task is quick. Controllers are erased at the same time.
//
// # Rules
//
//   - Names and users of a disk are read from sysfs and procfs through the machine's
//     root. The kernel has the last word: the disk is opened O_EXCL, which fails if
//     any of its partitions is mounted, mapped or part of an array.
//   - All disks stay open, so that no process takes a disk into use between the check
//     and the erase. Each disk is judged again right before it is touched.
//   - A method counts as done when the disk itself reports it (the sanitize log page,
//     the security state) and the planted blocks are gone. A program's exit status 0
//     proves nothing: only a sanitize, which has a log, may end without planted blocks.
//   - A refused or failed method stays in the result with its reason. The result never
//     names a method that did not run to its end.
//   - If a method may still run inside the drive, no other method follows, on any of
//     its controller's disks.
//   - An ATA disk with a password is not clean: it locks when it next loses power.
//   - A format with erase setting 0 is impossible: the command profile has no such
//     value.
//   - The programs' output is untrusted: parse.go bounds it, and output about another
//     disk is refused.
//
// # Overwrite
//
// An overwrite writes the keystream of AES-256-CTR under a random key to the whole device, past the
// kernel's cache, flushes it, and reads all of it back. The progress and the key are kept until the
// overwrite ends, so that the next run need not write the same part again (resume.go). The whole
// disk is read back in any case: no kept progress makes a disk clean.
package erase
