// Package facts looks at a machine's hardware and the software under it: what
// resolver profiles match on and an operator reads before a turnover.
//
// # Model
//
// Gather reads PCI, drivers and their parameters from sysfs and procfs, and asks
// a Survey for what only a vendor's library knows. The survey runs in a child
// process: no vendor code is loaded here.
//
// # Rules
//
//   - No GPU, a GPU without a driver, a driver without a library, a library that
//     does not fit the driver: ordinary facts, never errors.
//   - What could not be read is missing, never zero or empty text that could be
//     taken for an answer.
//   - Only what stays as it is between two boots: facts are compared by digest.
//   - sysfs is the kernel's word, but its text is bounded and cleaned like all
//     other: a device may choose its own strings.
package facts
