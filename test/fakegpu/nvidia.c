//go:build ignore

#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nv_open(void)
{
	int n = fg_open("nvidia");
	for (int i = 0; i < n; i++) {
		fg_gpu *g = fg_gpu_at(i);
		fg_state *s = fg_lock(g);
		if (!s->setting[NV_SETTLED]) {
			s->setting[NV_SETTLED] = s->pending[NV_SETTLED] = 1;
			s->setting[NV_MIG] = fg_fault(g, "mig_on", NULL);
			s->setting[NV_PERSISTENCE] = s->pending[NV_PERSISTENCE] = !strcmp(fg_conf(g, "persistence", "off"), "on");
			s->pending[NV_MIG] = s->setting[NV_MIG] || fg_fault(g, "mig_pending", NULL);
		}
		fg_unlock(g);
	}
	return n;
}

void nv_uuid(fg_gpu *g, int instance, char out[48])
{
	unsigned char u[16];
	fg_instance_uuid(g, instance, u);
	snprintf(out, 48, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", instance == FG_WHOLE ? "GPU" : "MIG",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

int nv_instance(fg_gpu *g, int instance)
{
	fg_state *s = fg_lock(g);
	int there = s->setting[NV_MIG] && instance < fg_instances(g) && !(s->setting[NV_NO_COMPUTE_INSTANCE] >> instance & 1);
	fg_unlock(g);
	return there;
}

fg_gpu *nv_find(const char *uuid, int *instance)
{
	char text[48];
	fg_gpu *g;
	for (int i = 0; (g = fg_gpu_at(i)); i++) {
		for (*instance = FG_WHOLE; *instance < fg_instances(g); ++*instance) {
			if (*instance != FG_WHOLE && !nv_instance(g, *instance))
				continue;
			nv_uuid(g, *instance, text);
			if (!strcmp(text, uuid))
				return g;
		}
	}
	return NULL;
}

int nv_fabric(fg_gpu *g, int asked)
{
	const char *polls = "1";
	if (fg_fault(g, "fabric_down", NULL))
		return 1;
	if (strcmp(fg_conf(g, "fabric", "off"), "on"))
		return 0;
	fg_fault(g, "fabric_slow", &polls);
	fg_state *s = fg_lock(g);
	int ready = !s->resets || (strcmp(polls, "never") && s->polls >= strtoull(polls, NULL, 0));
	s->polls += (uint64_t)asked;
	fg_unlock(g);
	return ready ? 3 : 2;
}
