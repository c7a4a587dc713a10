//go:build ignore

/*
 * A stand-in for amd-ctk, AMD's container toolkit: "cdi list".
 *
 * Faults known here: driver_missing, toolkit_broken.
 */
#include "amd.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "cdi") || strcmp(argv[2], "list"))
		return 1;
	int n = fg_open("amd");
	if (n <= 0 || fg_fault(NULL, "driver_missing", NULL) || fg_fault(NULL, "toolkit_broken", NULL)) {
		fprintf(stderr, "no AMD GPUs found\n");
		return 1;
	}
	printf("Found %d AMD GPU devices\n", n);
	for (int i = 0; i < n; i++)
		printf("amd.com/gpu=%d\n", i);
	printf("amd.com/gpu=all\n");
	return 0;
}
