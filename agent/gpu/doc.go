// Package gpu overwrites the memory of GPUs, verifies the overwrite, and looks at the memory again
// as the next tenant would. Its main types are Helper (used by the agent), Vendor and Memory
// (implemented in the packages nvidia and amd, and used only in a child process). The plan of a
// scrub is not here but in agent/scrub.
//
// # Model
//
// A vendor's library may hang in the kernel, crash, or write over the process's memory. The agent
// therefore never loads it: a short-lived child, `hostler-agent gpu helper`, carries out each
// request, one child per device.
//
//	Helper (in the agent) ──request, one JSON value──▶ child: Child ──▶ Vendor, Memory
//	                      ◀──progress*, result or error, one JSON value a line──
//
// The child is a process group of its own with a fixed environment and bounded output. It ends when
// its stdin ends, so it never outlives the agent. The parent kills the whole group when the
// deadline passes, when the child is silent for too long, or when the caller cancels, in the middle
// of a chunk too.
//
// A scrub holds every chunk it could get until its end, so that no byte is counted twice. It takes
// the chunks in one pass and makes four more passes over them:
//
//	take    chunks of 1 GiB, 256, 64 and 2 MiB until no more can be had, counting
//	        the words that are not zero: the last tenant's residue
//	fill    a pattern of the task's nonce, the GPU's uuid and the offset
//	verify  compared on the GPU, and random words of each chunk read to the host
//	zero    so that a later look means something
//	check   words that are not zero counted, and random words read
//
// Verifying starts after the last fill: if two chunks are the same memory under two addresses, one
// of them then differs from its pattern.
//
// # What proves a reset
//
// An exit status proves nothing, and neither do many values set back by a single cause.
// ResetWitnesses and KernelReset name sources, and policy requires two:
//
//	counters  energy, ECC, replays: restarted when the driver initialises the GPU
//	fabric    the GPU had to join its NVLink fabric again, and no other cause is known
//	owed      MIG or ECC mode, row remap, recovery action: changes pending a reset
//	kernel    the kernel's own line, of amdgpu or of a reset through sysfs
//
// A healthy NVIDIA GPU outside a fabric, without pending changes, has the counters alone: its reset
// stays unproven, even if it took place. No other observation tells a reset from its absence. The
// driver clears a pattern left in memory when its process ends, which must be before the reset; no
// handle may stay open across a reset; NVML has no boot count of a GPU or its firmware; the bus
// keeps no trace, because configuration space is saved and restored. Blackwell keeps a host name
// until a reset or a reload of the driver, which is the counters' cause again.
//
// # Rules
//
//   - A figure that was not measured is missing, never zero.
//   - An ECC error or a kernel fault ends the scrub of its GPU; nothing is retried.
//     The other GPUs go on.
//   - Coverage is the verified memory as a share of all memory less the driver's
//     reserve. Excluded memory is named, with its size.
//   - A child's output is untrusted: it is bounded, cleaned and checked for
//     plausibility before use.
//   - While a tenant is on the node, only a task, an operator and the look of each
//     minute (agent/health) query a GPU, and the look only reads. On a node without
//     a tenant the agent also surveys the GPUs for its facts.
package gpu
