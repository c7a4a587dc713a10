// Package fakegpu is a machine with GPUs for tests: C libraries with the ABI of the
// vendors' own, built with gcc, over GPUs whose memory is a file. What a process
// leaves in that memory the next one finds. The agent that runs over them is
// unmodified.
//
// vram.h describes the machine, its config and the faults that all libraries know;
// the top of each .c file those of its own. The .c files are no part of this Go
// package: their build constraint says so.
//
//	libnvidia-ml.so.1 libcuda.so.1 nvidia-smi     nvml.c cuda.c nvidia-smi.c
//	libamd_smi.so libamdhip64.so libhiprtc.so     amdsmi.c hip.c hiprtc.c
//	amd-smi amd-ctk                               amd-smi.c amd-ctk.c
//	nvidia-ctk                                    nvidia-ctk.c nvidia.c
//	fakegpu-tenant fakegpu-tenant-amd             tenant.c tenant-amd.c
//	fakegpu-nodes                                 nodes.c
package fakegpu
