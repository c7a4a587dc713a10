// Package erase erases the local disks that a task names, and says truthfully what
// was done to each.
//
// # Model
//
// A run has two halves. Until every disk of the task was found by its names, judged
// and opened for this process alone, nothing is written anywhere: one reason against
// one disk is the end of the whole task. Then each disk, or each NVMe controller with
// its namespaces, goes through its methods from the best to the least until one ran
// to its end: NVMe sanitize, format with an erase setting, overwrite; ATA enhanced
// and plain security erase, overwrite; or discard alone, where the task is quick.
// Controllers are erased at the same time.
//
// # Rules
//
//   - What a disk is called and what uses it is read from sysfs and procfs through
//     the machine's root, and the kernel has the last word: the disk is opened O_EXCL,
//     which a mount, an array and a mapping of any of its partitions keep off.
//   - All disks stay open, so that nobody takes one into use between the check and
//     the erase. Right before a disk is touched all of it is looked at again.
//   - A method has been done when the disk itself says so (the sanitize log page, the
//     security state) and what was planted before is gone. A program that ends with 0
//     has said nothing: only a sanitize, which has a log, may end without that look.
//   - What was refused or failed stays in the result with its reason. The result never
//     names a method that did not run to its end.
//   - What may go on inside the drive is never followed by another method, on any of
//     its controller's disks.
//   - An ATA disk with a password is not clean: it locks when it next loses power.
//   - A format with erase setting 0 cannot be written: the command profile has no such
//     value.
//   - What the programs print is untrusted: parse.go bounds it, and it names the disk
//     that was meant or is refused.
//
// # Overwrite
//
// The keystream of AES-256-CTR under a random key, written past the kernel's cache to
// the whole device, flushed, and read back whole. How far it came is kept until it
// ends, with the key, so that the next run need not write that again (resume.go). What
// is read back is all of the disk in any case: nothing that is kept makes a disk clean.
package erase
