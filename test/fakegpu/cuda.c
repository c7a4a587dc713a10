//go:build ignore

/*
 * libcuda.so.1: the driver API's calls that Hostler and the tenant program use,
 * with the names, types and return codes of the CUDA driver API. A module is PTX
 * text; its kernels are known by name and do here what the PTX says.
 *
 * CUDA_VISIBLE_DEVICES selects devices by uuid, as the real one does; an instance
 * of MIG is visible by its own uuid only.
 *
 * Faults known here: driver_missing, library_mismatched, fabric_down, fabric_slow,
 * ptx_refused (the driver cannot compile the text), mps (a daemon of somebody's
 * answers at the usual place, and takes whoever does not look elsewhere), and those
 * of memory.
 */
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct kernel *CUfunction;
typedef void *CUstream;
typedef struct {
	char bytes[16];
} CUuuid;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_ECC_UNCORRECTABLE = 214,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
	CUDA_ERROR_UNKNOWN = 999,
};

struct context {
	fg_gpu *gpu;
	int instance;
	CUresult broken; /* an error of a kernel stays for the life of the context */
};

struct module {
	char *text;
};

struct kernel {
	char name[64];
};

static struct context visible[FG_MAX_GPUS];
static int nvisible, initialised;
static __thread CUcontext current;

static CUresult result(int r)
{
	switch (r) {
	case FG_OK: return CUDA_SUCCESS;
	case FG_NOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
	case FG_ECC: return CUDA_ERROR_ECC_UNCORRECTABLE;
	case FG_LOST: return CUDA_ERROR_UNKNOWN;
	default: return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
}

static int is_mig(fg_gpu *g)
{
	int64_t on = fg_lock(g)->setting[NV_MIG];
	fg_unlock(g);
	return on != 0;
}

static void see(fg_gpu *g, int instance)
{
	if (g && is_mig(g) == (instance != FG_WHOLE) && nvisible < FG_MAX_GPUS)
		visible[nvisible++] = (struct context){g, instance, 0};
}

EXPORT CUresult cuInit(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	int n = nv_open();
	if (n < 0 || fg_fault(NULL, "driver_missing", NULL))
		return CUDA_ERROR_NO_DEVICE;
	if (fg_fault(NULL, "library_mismatched", NULL))
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
	if (fg_fault(NULL, "mps", NULL) && (!pipes || !access(pipes, F_OK)))
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	nvisible = 0;
	const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
	if (!chosen) {
		for (int i = 0; i < n; i++)
			see(fg_gpu_at(i), FG_WHOLE);
	} else {
		char *list = strdup(chosen), *save = NULL;
		for (char *uuid = strtok_r(list, ",", &save); uuid; uuid = strtok_r(NULL, ",", &save)) {
			int instance;
			fg_gpu *g = nv_find(uuid, &instance);
			if (!g)
				break; /* what follows a name that is not there is not seen either */
			see(g, instance);
		}
		free(list);
	}
	if (nvisible == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < nvisible; i++)
		if (nv_fabric(visible[i].gpu, 0) == 1 || nv_fabric(visible[i].gpu, 0) == 2)
			return CUDA_ERROR_SYSTEM_NOT_READY;
	initialised = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = 12080;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = nvisible;
	return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= nvisible)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	if (device < 0 || device >= nvisible)
		return CUDA_ERROR_INVALID_DEVICE;
	fg_instance_uuid(visible[device].gpu, visible[device].instance, (unsigned char *)uuid->bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	if (device < 0 || device >= nvisible)
		return CUDA_ERROR_INVALID_DEVICE;
	if (attribute != 16) /* MULTIPROCESSOR_COUNT */
		return CUDA_ERROR_INVALID_VALUE;
	*value = 132;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	if (device < 0 || device >= nvisible)
		return CUDA_ERROR_INVALID_DEVICE;
	fg_gpu *g = visible[device].gpu;
	if (fg_lost(g))
		return CUDA_ERROR_UNKNOWN;
	int64_t mode = fg_lock(g)->setting[NV_COMPUTE_MODE];
	fg_unlock(g);
	if (mode == 2)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	int r = fg_attach(g, visible[device].instance, "compute");
	if (r)
		return r == FG_LOST ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_DEVICE_UNAVAILABLE;
	*context = current = &visible[device];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	fg_detach(context->gpu);
	if (current == context)
		current = NULL;
	return CUDA_SUCCESS;
}

#define IN_CONTEXT()                               \
	if (!current)                              \
		return CUDA_ERROR_INVALID_CONTEXT; \
	if (current->broken)                       \
	return current->broken

static CUresult did(int r)
{
	CUresult c = result(r);
	if (c && c != CUDA_ERROR_OUT_OF_MEMORY)
		current->broken = c;
	return c;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	IN_CONTEXT();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	IN_CONTEXT();
	*free_bytes = fg_free(current->gpu, current->instance);
	*total = fg_total(current->gpu, current->instance) - fg_reserved(current->gpu, current->instance);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	IN_CONTEXT();
	*address = fg_alloc(current->gpu, bytes);
	return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	IN_CONTEXT();
	return did(fg_release(current->gpu, address));
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count)
{
	IN_CONTEXT();
	return did(fg_memset32(current->gpu, address, value, count));
}

EXPORT CUresult cuMemcpyDtoH_v2(void *into, CUdeviceptr address, size_t bytes)
{
	IN_CONTEXT();
	return did(fg_read(current->gpu, address, into, bytes));
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr address, const void *from, size_t bytes)
{
	IN_CONTEXT();
	return did(fg_write(current->gpu, address, from, bytes));
}

/* ---- modules and kernels ---- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	IN_CONTEXT();
	const char *text = image;
	if (fg_fault(current->gpu, "ptx_refused", NULL) || !strstr(text, ".version") || !strstr(text, ".target") || !strstr(text, ".address_size 64"))
		return CUDA_ERROR_INVALID_PTX;
	*module = calloc(1, sizeof **module);
	(*module)->text = strdup(text);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	free(module->text);
	free(module);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	IN_CONTEXT();
	char entry[96];
	snprintf(entry, sizeof entry, ".visible .entry %s(", name);
	if (!strstr(module->text, entry))
		return CUDA_ERROR_NOT_FOUND;
	*function = calloc(1, sizeof **function);
	snprintf((*function)->name, sizeof (*function)->name, "%s", name);
	return CUDA_SUCCESS;
}

/* Adds to a counter in device memory, as the kernels' red.global.add does. */
static int add(fg_gpu *g, uint64_t address, uint64_t n)
{
	uint64_t sum;
	int r = fg_read(g, address, &sum, 8);
	sum += n;
	return r ? r : fg_write(g, address, &sum, 8);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
			       unsigned int shared, CUstream stream, void **params, void **extra)
{
	IN_CONTEXT();
	if (!f || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || shared || stream || !params || extra)
		return CUDA_ERROR_INVALID_VALUE;
	fg_gpu *g = current->gpu;
	uint64_t n = 0;
#define ARG(i) (*(uint64_t *)params[i])
	if (!strcmp(f->name, "hostler_fill"))
		return did(fg_pattern_fill(g, ARG(0), ARG(1), ARG(2), ARG(3), ARG(4)));
	int r;
	if (!strcmp(f->name, "hostler_mismatches")) {
		r = fg_pattern_differs(g, ARG(0), ARG(1), ARG(2), ARG(3), ARG(4), &n);
		return did(r ? r : add(g, ARG(5), n));
	}
	if (!strcmp(f->name, "hostler_nonzero")) {
		r = fg_nonzero(g, ARG(0), ARG(1), &n);
		return did(r ? r : add(g, ARG(2), n));
	}
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	switch (error) {
	case CUDA_SUCCESS: *text = "no error"; break;
	case CUDA_ERROR_OUT_OF_MEMORY: *text = "out of memory"; break;
	case CUDA_ERROR_NO_DEVICE: *text = "no CUDA-capable device is detected"; break;
	case CUDA_ERROR_ECC_UNCORRECTABLE: *text = "uncorrectable ECC error encountered"; break;
	case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "an illegal memory access was encountered"; break;
	case CUDA_ERROR_SYSTEM_NOT_READY: *text = "system not yet initialized"; break;
	default: *text = "unknown error";
	}
	return CUDA_SUCCESS;
}
