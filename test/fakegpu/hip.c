//go:build ignore

/*
 * A fake libamdhip64.so. A module is what the fake libhiprtc.so made of the source
 * of kernels: they are run by name, in C, and what goes wrong in one is told by the
 * next call that waits for it, as in the real runtime.
 *
 * Faults of its own: driver_missing (no device, 100); those of vram.h.
 */
#define _GNU_SOURCE
#include "amd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum error {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_IMAGE = 200, ECC_NOT_CORRECTABLE = 214, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700,
};

#define EXPORT __attribute__((visibility("default")))
#define MAGIC "fake code object\n"

static int initialized, ndevices, deferred;
static struct {
	fg_gpu *gpu;
	int instance;
} devices[FG_MAX_GPUS * 8];
static __thread int current = -1;

static int error_of(int result)
{
	switch (result) {
	case FG_OK: return OK;
	case FG_NOMEM: return OUT_OF_MEMORY;
	case FG_ECC: return ECC_NOT_CORRECTABLE;
	case FG_LOST: return NO_DEVICE;
	case FG_FAULT: return ILLEGAL_ADDRESS;
	}
	return INVALID_VALUE;
}

EXPORT int hipInit(unsigned flags)
{
	if (flags)
		return INVALID_VALUE;
	if (initialized)
		return OK;
	int n = fg_open("amd");
	fg_misbehave(NULL, "init");
	if (n <= 0 || fg_fault(NULL, "driver_missing", NULL))
		return NO_DEVICE;
	for (int i = 0; i < n; i++) {
		fg_gpu *g = fg_gpu_at(i);
		for (int k = 0; k < amd_partitions(g); k++) {
			devices[ndevices].gpu = g;
			devices[ndevices++].instance = amd_instance(g, k);
		}
	}
	initialized = 1;
	return OK;
}

EXPORT int hipGetDeviceCount(int *count)
{
	int r = hipInit(0);
	*count = ndevices;
	return r;
}

/* All partitions of a GPU have its address. */
EXPORT int hipDeviceGetPCIBusId(char *text, int length, int device)
{
	if (device < 0 || device >= ndevices)
		return INVALID_DEVICE;
	uint32_t domain, bus, slot;
	fg_pci(devices[device].gpu, &domain, &bus, &slot);
	snprintf(text, (size_t)length, "%04x:%02x:%02x.0", domain, bus, slot);
	return OK;
}

EXPORT int hipSetDevice(int device)
{
	if (device < 0 || device >= ndevices)
		return INVALID_DEVICE;
	current = device;
	return error_of(fg_attach(devices[device].gpu, devices[device].instance, "compute"));
}

static fg_gpu *here(void) { return current < 0 ? NULL : devices[current].gpu; }

EXPORT int hipDeviceReset(void)
{
	if (here())
		fg_detach(here());
	return OK;
}

/* What a kernel did wrong stays until the process ends. */
EXPORT int hipDeviceSynchronize(void) { return here() ? deferred : NOT_INITIALIZED; }

EXPORT const char *hipGetErrorName(int error)
{
	switch (error) {
	case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
	case NO_DEVICE: return "hipErrorNoDevice";
	case ECC_NOT_CORRECTABLE: return "hipErrorECCNotCorrectable";
	case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
	}
	return "hipErrorUnknown";
}

/* ---- memory ---- */

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
	if (!here())
		return NOT_INITIALIZED;
	*free_bytes = fg_free(here(), devices[current].instance);
	*total = fg_total(here(), devices[current].instance);
	return fg_lost(here()) ? NO_DEVICE : OK;
}

EXPORT int hipMalloc(void **address, size_t bytes)
{
	if (!here())
		return NOT_INITIALIZED;
	if (deferred)
		return deferred;
	uint64_t at = fg_alloc(here(), bytes);
	*address = (void *)at;
	return at ? OK : fg_lost(here()) ? NO_DEVICE : OUT_OF_MEMORY;
}

EXPORT int hipFree(void *address)
{
	return !address ? OK : !here() ? NOT_INITIALIZED : deferred ? deferred : error_of(fg_release(here(), (uint64_t)address));
}

EXPORT int hipMemsetD32(void *address, int value, size_t count)
{
	return !here() ? NOT_INITIALIZED : deferred ? deferred : error_of(fg_memset32(here(), (uint64_t)address, (uint32_t)value, count));
}

EXPORT int hipMemcpyDtoH(void *to, void *from, size_t bytes)
{
	return !here() ? NOT_INITIALIZED : deferred ? deferred : error_of(fg_read(here(), (uint64_t)from, to, bytes));
}

EXPORT int hipMemcpyHtoD(void *to, void *from, size_t bytes)
{
	return !here() ? NOT_INITIALIZED : deferred ? deferred : error_of(fg_write(here(), (uint64_t)to, from, bytes));
}

/* ---- kernels ---- */

typedef int kernel(void **args);

static uint64_t word(void *arg)
{
	uint64_t v;
	memcpy(&v, arg, sizeof v);
	return v;
}

static int add_to(uint64_t address, uint64_t n)
{
	uint64_t sum = 0;
	int r = fg_read(here(), address, &sum, sizeof sum);
	sum += n;
	return r ? r : fg_write(here(), address, &sum, sizeof sum);
}

/* (words, n, lo, hi, first) */
static int fill(void **a) { return fg_pattern_fill(here(), word(a[0]), word(a[1]), word(a[2]), word(a[3]), word(a[4])); }

/* (words, n, lo, hi, first, count) */
static int mismatches(void **a)
{
	uint64_t n = 0;
	int r = fg_pattern_differs(here(), word(a[0]), word(a[1]), word(a[2]), word(a[3]), word(a[4]), &n);
	return r ? r : add_to(word(a[5]), n);
}

/* (words, n, count) */
static int nonzero(void **a)
{
	uint64_t n = 0;
	int r = fg_nonzero(here(), word(a[0]), word(a[1]), &n);
	return r ? r : add_to(word(a[2]), n);
}

EXPORT int hipModuleLoadData(void **module, const void *image)
{
	if (!here())
		return NOT_INITIALIZED;
	if (strncmp(image, MAGIC, strlen(MAGIC)))
		return INVALID_IMAGE;
	*module = strdup(image);
	return OK;
}

EXPORT int hipModuleUnload(void *module)
{
	free(module);
	return OK;
}

EXPORT int hipModuleGetFunction(kernel **function, void *module, const char *name)
{
	static const struct {
		const char *name;
		kernel *run;
	} known[] = {{"hostler_fill", fill}, {"hostler_mismatches", mismatches}, {"hostler_nonzero", nonzero}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(name, known[i].name) && strstr(module, name)) {
			*function = known[i].run;
			return OK;
		}
	return NOT_FOUND;
}

EXPORT int hipModuleLaunchKernel(kernel *run, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
				 unsigned shared, void *stream, void **args, void **extra)
{
	(void)shared, (void)stream;
	if (!here())
		return NOT_INITIALIZED;
	if (!args || extra || !gx || !gy || !gz || bx * by * bz == 0 || bx * by * bz > 1024 || (uint64_t)gx * bx > UINT32_MAX)
		return INVALID_VALUE;
	if (!deferred)
		deferred = error_of(run(args));
	return OK;
}
