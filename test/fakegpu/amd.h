/*
 * What the fake AMD libraries share: which slot of fg_state.setting means what,
 * and how a GPU is divided. A slot at zero is as the GPU came from its maker.
 */
#ifndef FAKEGPU_AMD_H
#define FAKEGPU_AMD_H

#include "vram.h"

enum { AMD_COMPUTE, AMD_MEMORY, AMD_POWER, AMD_PERF, AMD_ISOLATION, AMD_CLEANED };

/* Modes as this fake counts them, which no version of the library need follow. */
enum amd_mode { AMD_SPX = 1, AMD_DPX, AMD_TPX, AMD_QPX, AMD_CPX };

static const int amd_parts[] = {0, 1, 2, 3, 4, 8};

/* The mode that the config's "instances" stands for; whole without that key. */
static inline int amd_mode_of_config(const fg_gpu *g)
{
	for (int mode = AMD_DPX; mode <= AMD_CPX; mode++)
		if (fg_conf(g, "instances", NULL) && amd_parts[mode] == fg_instances(g))
			return mode;
	return AMD_SPX;
}

static inline int amd_mode(fg_gpu *g)
{
	int64_t set = fg_lock(g)->setting[AMD_COMPUTE];
	fg_unlock(g);
	return set ? (int)set : amd_mode_of_config(g);
}

/* How many partitions a GPU shows, and what partition i is to vram.h. */
static inline int amd_partitions(fg_gpu *g) { return amd_parts[amd_mode(g)]; }
static inline int amd_instance(fg_gpu *g, int i) { return amd_partitions(g) > 1 ? i : FG_WHOLE; }

#endif
