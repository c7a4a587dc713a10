//go:build ignore

/*
 * A stand-in for nvidia-smi: --gpu-reset, and the few queries that profiles make.
 *
 * A reset is refused while persistence mode is on: the driver itself holds the GPU then.
 *
 * Faults known here: in_use_on_reset, lying_reset (says it did and does nothing),
 * reset_unsupported, and "hang smi".
 */
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fg_gpu *named(const char *name)
{
	int instance;
	char *end;
	long ordinal = strtol(name, &end, 10);
	if (*name && !*end)
		return fg_gpu_at((int)ordinal);
	fg_gpu *g = nv_find(name, &instance);
	return instance == FG_WHOLE ? g : NULL;
}

static void bus_id(fg_gpu *g, char out[32])
{
	uint32_t domain, bus, device;
	fg_pci(g, &domain, &bus, &device);
	snprintf(out, 32, "%08X:%02X:%02X.0", domain, bus, device);
}

static int in_use(fg_gpu *g)
{
	fg_client clients[FG_MAX_CLIENTS];
	int64_t persists = fg_lock(g)->setting[NV_PERSISTENCE];
	fg_unlock(g);
	return fg_fault(g, "in_use_on_reset", NULL) || persists || fg_clients(g, clients, FG_MAX_CLIENTS) > 0;
}

static int reset(fg_gpu *g)
{
	char id[32];
	bus_id(g, id);
	if (geteuid() != 0) {
		printf("Unable to reset GPU %s: Insufficient Permissions\n", id);
		return 4;
	}
	if (fg_lost(g)) {
		printf("Unable to determine the device handle for GPU %s: GPU is lost.  Reboot the system to recover this GPU\n", id);
		return 15;
	}
	if (fg_fault(g, "reset_unsupported", NULL)) {
		printf("Resetting GPU %s is not supported.\n", id);
		return 3;
	}
	if (in_use(g)) {
		printf("The following GPUs could not be reset:\n  GPU %s: In use by another client\n", id);
		return 255;
	}
	if (!fg_fault(g, "lying_reset", NULL))
		fg_reset(g);
	printf("GPU %s was successfully reset.\n", id);
	return 0;
}

static int reset_all(char *names)
{
	fg_gpu *chosen[FG_MAX_GPUS];
	int n = 0, status = 0;
	char *save = NULL;
	for (char *name = names ? strtok_r(names, ",", &save) : NULL; name && n < FG_MAX_GPUS; name = strtok_r(NULL, ",", &save)) {
		fg_gpu *g = named(name);
		if (!g) {
			printf("No devices were found\n");
			return 6;
		}
		chosen[n++] = g;
	}
	for (int i = 0; !names && fg_gpu_at(i); i++)
		chosen[n++] = fg_gpu_at(i);
	for (int i = 0; i < n; i++) {
		int r = reset(chosen[i]);
		status = r ? r : status;
	}
	if (!status)
		printf("All done.\n");
	return status;
}

static int query(const char *fields, char *names)
{
	char list[512], id[32], uuid[48];
	fg_gpu *g, *one = names ? named(names) : NULL;
	if (names && !one)
		return 6;
	for (int i = 0; (g = fg_gpu_at(i)); i++) {
		if (one && g != one)
			continue;
		snprintf(list, sizeof list, "%s", fields);
		char *save = NULL;
		const char *sep = "";
		for (char *f = strtok_r(list, ",", &save); f; f = strtok_r(NULL, ",", &save), sep = ", ") {
			printf("%s", sep);
			bus_id(g, id);
			nv_uuid(g, FG_WHOLE, uuid);
			if (!strcmp(f, "index"))
				printf("%d", i);
			else if (!strcmp(f, "uuid"))
				printf("%s", uuid);
			else if (!strcmp(f, "pci.bus_id"))
				printf("%s", id);
			else if (!strcmp(f, "name"))
				printf("%s", fg_conf(g, "name", "NVIDIA H100 80GB HBM3"));
			else if (!strcmp(f, "driver_version"))
				printf("%s", fg_conf(g, "driver", "570.86.15"));
			else if (!strcmp(f, "vbios_version"))
				printf("96.00.74.00.01");
			else if (!strcmp(f, "memory.total"))
				printf("%llu", (unsigned long long)(fg_total(g, FG_WHOLE) >> 20));
			else if (!strcmp(f, "memory.used"))
				printf("%llu", (unsigned long long)((fg_total(g, FG_WHOLE) - fg_free(g, FG_WHOLE)) >> 20));
			else if (!strcmp(f, "utilization.gpu") || !strcmp(f, "ecc.errors.uncorrected.volatile.total"))
				printf("0");
			else if (!strcmp(f, "compute_mode"))
				printf("Default");
			else {
				printf("Field \"%s\" is not a valid field to query.\n", f);
				return 2;
			}
		}
		printf("\n");
	}
	return 0;
}

int main(int argc, char **argv)
{
	char *names = NULL;
	const char *fields = NULL;
	int want_reset = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--gpu-reset") || !strcmp(argv[i], "-r"))
			want_reset = 1;
		else if ((!strcmp(argv[i], "-i") || !strcmp(argv[i], "--id")) && i + 1 < argc)
			names = argv[++i];
		else if (!strncmp(argv[i], "--id=", 5))
			names = argv[i] + 5;
		else if (!strncmp(argv[i], "--query-gpu=", 12))
			fields = argv[i] + 12;
		else if (strncmp(argv[i], "--format=", 9) && strcmp(argv[i], "-L")) {
			printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
			return 2;
		}
	}
	if (nv_open() < 0 || fg_fault(NULL, "driver_missing", NULL)) {
		printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n");
		return 9;
	}
	if (fg_gpu_at(0))
		fg_misbehave(fg_gpu_at(0), "smi");
	if (want_reset)
		return reset_all(names);
	return query(fields ? fields : "index,name,uuid", names);
}
