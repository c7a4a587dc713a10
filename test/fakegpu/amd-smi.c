//go:build ignore

/*
 * A stand-in for amd-smi: the queries that profiles make, in JSON, and --gpureset.
 *
 * As the releases up to ROCm 7 it ends with 0 when a GPU does not answer, and says
 * N/A; it ends with 255 only when no driver is loaded. Faults known here: driver_missing,
 * in_use_on_reset, lying_reset, and "hang smi".
 */
#include "amd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void driver(fg_gpu *g)
{
	printf("\"driver\": {\"name\": \"amdgpu\", \"version\": \"%s\"}", fg_conf(g, "driver", "6.14.14"));
}

static void megabytes(const char *name, uint64_t bytes, const char *after)
{
	printf("\"%s\": {\"value\": %llu, \"unit\": \"MB\"}%s", name, (unsigned long long)(bytes >> 20), after);
}

static void memory_usage(fg_gpu *g)
{
	uint64_t total = fg_total(g, FG_WHOLE), left = fg_free(g, FG_WHOLE);
	printf("\"mem_usage\": {");
	megabytes("total_vram", total, ", ");
	megabytes("used_vram", total - left, ", ");
	megabytes("free_vram", left, "}");
}

static void ecc(fg_gpu *g)
{
	fg_state *s = fg_lock(g);
	printf("\"ecc\": {\"total_correctable_count\": %llu, \"total_uncorrectable_count\": %llu, \"total_deferred_count\": 0}",
	       (unsigned long long)s->ecc_corrected, (unsigned long long)s->ecc_uncorrected);
	fg_unlock(g);
}

static void links(fg_gpu *g)
{
	uint64_t hive = fg_conf_size(g, "hive", 0);
	int first = 1;
	printf("\"link_metrics\": {\"links\": [");
	for (int i = 0; fg_gpu_at(i); i++) {
		fg_gpu *to = fg_gpu_at(i);
		if (to == g)
			continue;
		int together = hive && fg_conf_size(to, "hive", 0) == hive;
		printf("%s{\"gpu\": %d, \"link_type\": \"%s\"}", first ? "" : ", ", i, together ? "XGMI" : "PCIE");
		first = 0;
	}
	printf("]}");
}

static void (*const sections[])(fg_gpu *) = {driver, memory_usage, ecc, links};

/* Prints the sections whose bits are set, of all GPUs. */
static void show(unsigned which)
{
	printf("[");
	for (int i = 0; fg_gpu_at(i); i++) {
		printf("%s{\"gpu\": %d", i ? ", " : "", i);
		for (int k = 0; k < 4; k++) {
			if (!(which & 1u << k))
				continue;
			printf(", ");
			if (fg_lost(fg_gpu_at(i)))
				printf("\"error\": \"N/A\"");
			else
				sections[k](fg_gpu_at(i));
		}
		printf("}");
	}
	printf("]\n");
}

static int reset(const char *which)
{
	char *end;
	long n = strtol(which, &end, 10);
	fg_gpu *g = *which && !*end ? fg_gpu_at((int)n) : NULL;
	fg_client c;
	if (!g)
		printf("[{\"error\": \"GPU '%s' is not found on the system.\", \"code\": -3}]\n", which);
	else if (fg_fault(g, "in_use_on_reset", NULL) || fg_clients(g, &c, 1))
		printf("[{\"gpu\": %ld, \"gpu_reset\": \"Failed to reset GPU\"}]\n", n);
	else {
		if (!fg_fault(g, "lying_reset", NULL))
			fg_reset(g);
		printf("[{\"gpu\": %ld, \"gpu_reset\": \"Successfully reset GPU\"}]\n", n);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *command, *option;
		unsigned section;
	} known[] = {{"static", "--driver", 1}, {"metric", "--mem-usage", 2}, {"metric", "--ecc", 4}, {"xgmi", "--metric", 8}, {"list", "", 0}};
	unsigned which = 0;
	int n = fg_open("amd"), found = 0;
	fg_misbehave(NULL, "smi");
	if (n <= 0 || fg_fault(NULL, "driver_missing", NULL)) {
		fprintf(stderr, "ERROR: Driver not loaded (amdgpu not found in modules)\n");
		return 255;
	}
	const char *command = argc > 1 ? argv[1] : "";
	if (!strcmp(command, "reset") && argc >= 5 && !strcmp(argv[2], "--gpureset") && !strcmp(argv[3], "--gpu"))
		return reset(argv[4]);
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (!strcmp(command, known[k].command))
			for (found = 1, n = 2; n < argc; n++)
				which |= strcmp(argv[n], known[k].option) ? 0 : known[k].section;
	if (!found) {
		fprintf(stderr, "Command '%s' is invalid. Run '--help' for more info. Error code: -1\n", command);
		return 255;
	}
	show(which);
	return 0;
}
