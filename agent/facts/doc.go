// Package facts describes a machine's hardware and the software around it: the facts that resolver
// profiles match and that an operator reads before a turnover. Its main function is Gather.
//
// # Model
//
// Gather reads PCI, drivers and their parameters from sysfs and procfs, and calls a Survey for the
// facts known only to a vendor's library. The survey runs in a child process: no vendor code is
// loaded here.
//
// # Rules
//
//   - No GPU, a GPU without a driver, a driver without a library, a library that does not
//     fit the driver: ordinary facts, never errors.
//   - An unreadable value is missing, never zero or empty text that could be taken for an
//     answer.
//   - Facts hold only values that are stable between two boots, because they are compared
//     by digest.
//   - sysfs comes from the kernel, but its text is bounded and cleaned like all other
//     text: a device may choose its own strings.
package facts
