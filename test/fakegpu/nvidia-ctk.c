//go:build ignore

/*
 * A stand-in for nvidia-ctk, NVIDIA's container toolkit: "cdi generate".
 *
 * Faults known here: driver_missing, toolkit_broken.
 */
#include "nvidia.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "cdi") || strcmp(argv[2], "generate"))
		return 1;
	int n = nv_open();
	if (n < 0 || fg_fault(NULL, "driver_missing", NULL) || fg_fault(NULL, "toolkit_broken", NULL)) {
		fprintf(stderr, "failed to create device CDI specs: failed to initialize NVML: ERROR_DRIVER_NOT_LOADED\n");
		return 1;
	}
	printf("{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":[");
	for (int i = 0; i < n; i++)
		printf("{\"name\":\"%d\"},", i);
	printf("{\"name\":\"all\"}]}\n");
	return 0;
}
