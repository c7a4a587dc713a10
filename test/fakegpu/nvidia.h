/* What the fake libnvidia-ml, libcuda and nvidia-smi agree on. */
#ifndef FAKEGPU_NVIDIA_H
#define FAKEGPU_NVIDIA_H

#include "vram.h"

enum { NV_MIG, NV_COMPUTE_MODE, NV_ECC_OFF, NV_PERSISTENCE, NV_POWER_MW, NV_CLOCKS_SET, NV_NO_GPU_INSTANCE, NV_NO_COMPUTE_INSTANCE, NV_SETTLED = 31 };

/* Opens the NVIDIA GPUs; puts a new one into the state that the config gives it.
 * Keys of the vendor's: fabric on|off (off), persistence on|off (off). */
int nv_open(void);
void nv_uuid(fg_gpu *g, int instance, char out[48]);
/* Finds GPU-… or MIG-…; the GPU, or NULL. */
fg_gpu *nv_find(const char *uuid, int *instance);
/* Whether an instance of MIG is there: those of the config come with the mode, as a
 * tenant makes them, and stay until they are destroyed or the mode is off. */
int nv_instance(fg_gpu *g, int instance);
/* 0 not supported, 1 not started, 2 in progress, 3 completed. */
int nv_fabric(fg_gpu *g, int asked);

#endif
