// Package amd speaks to AMD's GPUs through the libraries of ROCm, opened at run
// time: a host without them is an ordinary host.
//
// # Model
//
//	libamd_smi.so     what is there, who holds it, settings, health, reset
//	libamdhip64.so    memory, as a tenant's program gets it
//	libhiprtc.so      optional: makes the kernels that fill and compare; without it
//	                  the host writes and reads back every byte
//
// AMD SMI groups processors into sockets. A socket is a GPU; where a GPU is
// partitioned, its socket has one processor per partition, all with the same uuid
// and PCI address. A partition is named UUID/N here, N counting from 0 in the
// library's order, which is HIP's as well.
//
// The driver resets an XGMI hive as one, whichever of its GPUs was named. Reset
// therefore wants whole hives and asks once for each.
//
// # Rules
//
//   - Structures differ between versions and carry no size. They are read from
//     buffers larger than any of them, at the offsets of the version that the
//     library says it is; and that is checked against a text known beforehand,
//     so that nothing is read from a library that is laid out otherwise.
//   - The cleaner shader (CleanLocal) clears registers and local data shares, not
//     memory. It is no part of an overwrite.
//   - The answer to a reset counts for nothing: the library reads a file of debugfs
//     that tells the outcome, and does not look at what it tells. State has the
//     counters of the GPU's firmware, which start again at zero.
//   - AMD SMI is shut down before memory is opened: a monitor's handle is a handle.
//   - sysfs is asked only for what the library does not say. A GPU needs no sysfs.
//
// # Versions
//
// AMD SMI 24.7 (ROCm 6.3) to 27 (ROCm 10). 24 has shorter strings and other numbers
// for memory partitions; those of 25 are not known for certain, so a partition that
// depends on them is left alone there and named as not applied.
package amd
