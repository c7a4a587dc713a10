// Package amd implements gpu.Vendor and gpu.Memory for AMD's GPUs, through the libraries of ROCm
// opened at run time: a host without them is an ordinary host. Its main type is Vendor. The package
// is used only in the helper process.
//
// # Model
//
//	libamd_smi.so     list of GPUs, holders, settings, health, reset
//	libamdhip64.so    memory, as a tenant's program gets it
//	libhiprtc.so      optional: compiles the kernels that fill and compare; without it
//	                  the host writes and reads back every byte
//
// AMD SMI groups processors into sockets. A socket is a GPU. The socket of a partitioned GPU has a
// processor per partition, all with the same uuid and PCI address. This package names a partition
// UUID/N, with N counting from 0 in the library's order, which is HIP's order as well.
//
// The driver resets an XGMI hive as a whole, whichever of its GPUs was named. Reset therefore
// requires whole hives and makes a single call for each.
//
// # Rules
//
//   - Structures differ between versions and carry no size. They are read into
//     buffers larger than any of them, at the offsets of the library's reported
//     version. A text known beforehand checks the layout, so that a library with
//     another layout is refused.
//   - The cleaner shader (CleanLocal) clears registers and local data shares, not
//     memory. It is no part of an overwrite.
//   - The answer to a reset is ignored: the library reads the outcome from a debugfs
//     file, but does not evaluate it. State has the counters of the GPU's firmware,
//     which start again at zero.
//   - AMD SMI is shut down before memory is opened, because an open monitoring
//     handle would hold the GPU.
//   - sysfs is read only for facts missing from the library. A GPU needs no sysfs.
//
// # Versions
//
// AMD SMI 24.7 (ROCm 6.3) to 27 (ROCm 10). Version 24 has shorter strings and other numbers for
// memory partitions. Some numbers of version 25 are uncertain: there, a partition that needs them
// is left alone and reported as not applied.
package amd
