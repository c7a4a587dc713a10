// Package gpu overwrites the memory of GPUs, verifies it, and looks again as the
// next tenant would.
//
// # Model
//
// A vendor's library may hang in the kernel, crash, or write over our memory. It
// is therefore never loaded into the agent: each thing asked of it is done by a
// short-lived child, `hostler-agent gpu helper`, one per device.
//
//	Helper (in the agent) ──request, one JSON value──▶ child: Child ──▶ Vendor, Memory
//	                      ◀──progress*, result or error, one JSON value a line──
//
// The child is a process group of its own with a fixed environment and bounded
// output. It ends when its stdin ends, so it never outlives the agent; the parent
// kills the group whole when the deadline passes, when it says nothing for too
// long, or when the caller cancels, in the middle of a chunk too.
//
// A scrub holds every chunk it could get until its end, so that no byte is
// counted twice. It takes them in one pass and goes over them in four more:
//
//	take    chunks of 1 GiB, 256, 64 and 2 MiB until no more can be had, counting
//	        the words that are not zero: what the last tenant left
//	fill    a pattern of the task's nonce, the GPU's uuid and the offset
//	verify  compared on the GPU, and random words of each chunk read to the host
//	zero    so that a later look means something
//	check   words that are not zero counted, and random words read
//
// Verifying starts when all is filled: two chunks that are the same memory under
// two addresses differ from their pattern then.
//
// # What proves a reset
//
// An exit status proves nothing, and neither do many values that one cause sets
// back. ResetWitnesses and KernelReset name sources, and policy asks for two:
//
//	counters  energy, ECC, replays: begun anew when the driver takes the GPU up
//	fabric    the GPU had to join its NVLink fabric again, and no other cause is known
//	owed      MIG or ECC mode, row remap, recovery action: what waits for a reset
//	kernel    the kernel's own line, of amdgpu or of a reset through sysfs
//
// A healthy NVIDIA GPU outside a fabric, to which nothing is owed, has the counters
// alone: its reset stays unproven, however true it was. What else could be looked at
// does not tell a reset from its absence. A pattern left in memory is cleared by the
// driver when its process ends, which must be before the reset; no handle may stay
// open across one; NVML has no number of a boot of the GPU or of its firmware; of
// the bus nothing stays changed, since configuration space is saved and restored.
// Blackwell keeps a host name until a reset or a reload of the driver, which is
// again the counters' cause.
//
// # Rules
//
//   - What was not measured is missing, never zero.
//   - An ECC error or a fault of a kernel ends the scrub of its GPU; nothing is
//     tried again. The other GPUs go on.
//   - Coverage is what was verified, as a share of all memory less what the
//     driver reserves. What is left out is named, with its size.
//   - What a child says is untrusted text: it is bounded, cleaned and checked for
//     sense before it is believed.
//   - While a tenant is on the node, nothing asks a GPU anything but a task or an
//     operator. On a node without one the agent surveys them for its facts, too.
package gpu
