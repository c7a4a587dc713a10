// Package fakegpu is a machine with GPUs for tests: C libraries with the vendors' ABI, built with
// gcc, over GPUs whose memory is a file. The next process finds the data that a process leaves in
// that memory. The agent runs over the libraries unmodified. Machine is the main type.
//
// vram.h describes the machine, its config and the faults common to all libraries; the top of each
// .c file describes the faults of its own. The .c files are no part of this Go package: their build
// constraint excludes them.
//
//	libnvidia-ml.so.1 libcuda.so.1 nvidia-smi     nvml.c cuda.c nvidia-smi.c
//	libamd_smi.so libamdhip64.so libhiprtc.so     amdsmi.c hip.c hiprtc.c
//	amd-smi amd-ctk                               amd-smi.c amd-ctk.c
//	nvidia-ctk                                    nvidia-ctk.c nvidia.c
//	fakegpu-tenant fakegpu-tenant-amd             tenant.c tenant-amd.c
//	fakegpu-nodes                                 nodes.c
package fakegpu
