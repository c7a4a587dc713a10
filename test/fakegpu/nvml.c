//go:build ignore

/*
 * libnvidia-ml.so.1. The declarations are those of the header that go-nvml was
 * made from, so a function that differs from the real one does not compile.
 *
 * Faults known here: driver_missing, library_mismatched, no_permission,
 * holder [PID], fabric_down, fabric_slow POLLS|never, mig_on, mig_pending,
 * struct_version, absurd (values that make no sense), refuses SETTING
 * (compute_mode, persistence, ecc, power_limit, clocks, mig, mig_instances), and
 * those of memory.
 *
 * Keys known here: recovery N, fabric_state N, fabric_health MASK (0xaa, all well), and
 * what a newer driver may answer whatever is set: answers_compute_mode N,
 * answers_persistence N, answers_ecc N, answers_mig N.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nvmlDevice_st {
	fg_gpu *gpu;
	int instance;
};

#define MAX_HANDLES 1024
static struct nvmlDevice_st handles[MAX_HANDLES];
static int nhandles, opened;

static nvmlReturn_t handle(fg_gpu *g, int instance, nvmlDevice_t *out)
{
	for (int i = 0; i < nhandles; i++)
		if (handles[i].gpu == g && handles[i].instance == instance) {
			out->handle = &handles[i];
			return NVML_SUCCESS;
		}
	if (nhandles == MAX_HANDLES)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	handles[nhandles] = (struct nvmlDevice_st){g, instance};
	out->handle = &handles[nhandles++];
	return NVML_SUCCESS;
}

/* Every call on a device begins like this. */
#define ENTER(device)                                                    \
	if (!opened)                                                     \
		return NVML_ERROR_UNINITIALIZED;                         \
	if (!(device).handle || !(device).handle->gpu)                   \
		return NVML_ERROR_INVALID_ARGUMENT;                      \
	fg_gpu *g = (device).handle->gpu;                                \
	int instance = (device).handle->instance;                        \
	(void)instance;                                                  \
	fg_misbehave(g, "nvml");                                         \
	if (fg_lost(g))                                                  \
	return NVML_ERROR_GPU_IS_LOST

#define WHOLE_ONLY()               \
	if (instance != FG_WHOLE)  \
	return NVML_ERROR_NOT_SUPPORTED

static nvmlReturn_t text(char *out, unsigned int length, const char *value)
{
	if (strlen(value) + 1 > length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, value);
	return NVML_SUCCESS;
}

/* ---- system ---- */

nvmlReturn_t nvmlInit_v2(void)
{
	int n = nv_open();
	if (n < 0 || fg_fault(NULL, "driver_missing", NULL))
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (fg_fault(NULL, "library_mismatched", NULL))
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	if (fg_fault(NULL, "no_permission", NULL))
		return NVML_ERROR_NO_PERMISSION;
	for (int i = 0; i < n && !opened; i++) {
		fg_misbehave(fg_gpu_at(i), "init");
		fg_attach(fg_gpu_at(i), FG_WHOLE, "nvml"); /* an open handle stands in the way of a reset */
	}
	opened++;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	if (!opened)
		return NVML_ERROR_UNINITIALIZED;
	if (--opened == 0)
		for (int i = 0; fg_gpu_at(i); i++)
			fg_detach(fg_gpu_at(i));
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	case NVML_ERROR_IN_USE: return "In use by another client";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
	default: return "Unknown Error";
	}
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return opened ? text(version, length, fg_conf(NULL, "driver", "570.86.15")) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	char full[96];
	snprintf(full, sizeof full, "12.%s", fg_conf(NULL, "driver", "570.86.15"));
	return text(version, length, full);
}

/* ---- finding devices ---- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (!opened)
		return NVML_ERROR_UNINITIALIZED;
	for (*count = 0; fg_gpu_at((int)*count); ++*count) {
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (!opened)
		return NVML_ERROR_UNINITIALIZED;
	fg_gpu *g = fg_gpu_at((int)index);
	if (!g)
		return NVML_ERROR_INVALID_ARGUMENT;
	return fg_lost(g) ? NVML_ERROR_GPU_IS_LOST : handle(g, FG_WHOLE, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	if (!opened)
		return NVML_ERROR_UNINITIALIZED;
	int instance;
	fg_gpu *g = nv_find(uuid, &instance);
	if (!g)
		return NVML_ERROR_NOT_FOUND;
	return fg_lost(g) ? NVML_ERROR_GPU_IS_LOST : handle(g, instance, device);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	ENTER(device);
	char out[48];
	nv_uuid(g, instance, out);
	return text(uuid, length, out);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	ENTER(device);
	if (fg_fault(g, "absurd", NULL))
		return text(name, length, "\x1b[31mH100\xff\n</script>");
	return text(name, length, fg_conf(g, "name", "NVIDIA H100 80GB HBM3"));
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	ENTER(device);
	WHOLE_ONLY();
	char out[32];
	snprintf(out, sizeof out, "165000%07d", fg_number(g));
	return text(serial, length, out);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	ENTER(device);
	memset(pci, 0, sizeof *pci);
	fg_pci(g, &pci->domain, &pci->bus, &pci->device);
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
	snprintf(pci->busId, sizeof pci->busId, "%08x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
	pci->pciDeviceId = 0x233010de;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	ENTER(device);
	WHOLE_ONLY();
	*minor = (unsigned int)fg_number(g);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
	ENTER(device);
	*arch = NVML_DEVICE_ARCH_HOPPER;
	return NVML_SUCCESS;
}

/* ---- memory and processes ---- */

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	ENTER(device);
	if (memory->version != nvmlMemory_v2 || fg_fault(g, "struct_version", NULL))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->total = fg_total(g, instance);
	memory->reserved = fg_reserved(g, instance);
	memory->free = fg_free(g, instance);
	memory->used = memory->total - memory->free;
	if (fg_fault(g, "absurd", NULL)) {
		memory->free = ~0ull;
		memory->reserved = memory->total * 2;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	ENTER(device);
	memory->total = fg_total(g, instance);
	memory->free = fg_free(g, instance);
	memory->used = memory->total - memory->free;
	return NVML_SUCCESS;
}

static nvmlReturn_t processes(fg_gpu *g, int instance, const char *kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
	fg_client clients[FG_MAX_CLIENTS];
	unsigned int n = 0;
	int all = fg_clients(g, clients, FG_MAX_CLIENTS);
	nvmlProcessInfo_t found[FG_MAX_CLIENTS + 1];
	for (int i = 0; i < all; i++) {
		if (strcmp(clients[i].kind, kind) || (instance != FG_WHOLE && clients[i].instance != instance))
			continue;
		unsigned int id = clients[i].instance == FG_WHOLE ? 0xFFFFFFFFu : (unsigned int)clients[i].instance;
		found[n++] = (nvmlProcessInfo_t){clients[i].pid, fg_used_by(g, &clients[i]), id, id};
	}
	const char *pid;
	if (!strcmp(kind, "compute") && fg_fault(g, "holder", &pid))
		found[n++] = (nvmlProcessInfo_t){*pid ? (unsigned int)atoi(pid) : 4242, 1 << 20, 0xFFFFFFFFu, 0xFFFFFFFFu};
	unsigned int room = *count;
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(infos, found, n * sizeof *infos);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	ENTER(device);
	return processes(g, instance, "compute", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	ENTER(device);
	return processes(g, instance, "graphics", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	ENTER(device);
	return processes(g, instance, "mps", infoCount, infos);
}

/* ---- health ---- */

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType, nvmlEccCounterType_t counterType, unsigned long long *eccCounts)
{
	ENTER(device);
	WHOLE_ONLY();
	fg_state *s = fg_lock(g);
	if (errorType == NVML_MEMORY_ERROR_TYPE_CORRECTED)
		*eccCounts = s->ecc_corrected;
	else
		*eccCounts = counterType == NVML_VOLATILE_ECC ? s->ecc_uncorrected : s->ecc_total;
	fg_unlock(g);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows, unsigned int *uncRows, unsigned int *isPending, unsigned int *failureOccurred)
{
	ENTER(device);
	WHOLE_ONLY();
	*corrRows = (unsigned int)atoi(fg_conf(g, "remapped_rows", "0"));
	*uncRows = 0;
	*isPending = fg_fault(g, "remap_pending", NULL);
	*failureOccurred = fg_fault(g, "remap_failed", NULL);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
	ENTER(device);
	WHOLE_ONLY();
	*energy = fg_energy_mj(g);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value)
{
	ENTER(device);
	WHOLE_ONLY();
	*value = (unsigned int)(fg_energy_mj(g) / 100000);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
	ENTER(device);
	*width = (unsigned int)fg_conf_size(g, "pcie_width", 16);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
	ENTER(device);
	*width = 16;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
	ENTER(device);
	*reasons = fg_conf_size(g, "throttle", 1); /* idle */
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *up)
{
	ENTER(device);
	if (link >= fg_conf_size(g, "nvlinks", 0))
		return NVML_ERROR_NOT_SUPPORTED;
	*up = link < fg_conf_size(g, "nvlinks_up", 0) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	ENTER(device);
	for (int i = 0; i < valuesCount; i++) {
		nvmlFieldValue_t *v = &values[i];
		v->nvmlReturn = NVML_SUCCESS;
		v->timestamp = v->latencyUsec = 0;
		switch (v->fieldId) {
		case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
			v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
			v->value.uiVal = (unsigned int)atoi(fg_conf(g, "recovery", "0"));
			break;
		case NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
			v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
			v->value.ullVal = fg_lock(g)->link_errors;
			fg_unlock(g);
			break;
		default:
			v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		}
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
	ENTER(device);
	WHOLE_ONLY();
	if ((info->version != nvmlGpuFabricInfo_v2 && info->version != nvmlGpuFabricInfo_v3) || fg_fault(g, "struct_version", NULL))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	info->state = (nvmlGpuFabricState_t)fg_conf_size(g, "fabric_state", (uint64_t)nv_fabric(g, 1));
	info->status = NVML_SUCCESS;
	info->healthMask = info->state == NVML_GPU_FABRIC_STATE_COMPLETED ? (unsigned int)fg_conf_size(g, "fabric_health", 0xaa) : 0;
	return NVML_SUCCESS;
}

/* ---- settings ---- */

static int64_t setting(fg_gpu *g, int which, int pending)
{
	fg_state *s = fg_lock(g);
	int64_t v = pending ? s->pending[which] : s->setting[which];
	fg_unlock(g);
	return v;
}

static nvmlReturn_t set(fg_gpu *g, const char *name, int which, int64_t value, int at_reset)
{
	const char *arg;
	if (geteuid() != 0 && strcmp(fg_conf(g, "setters", "root"), "anyone"))
		return NVML_ERROR_NO_PERMISSION;
	if (fg_fault(g, "refuses", &arg) && !strcmp(arg, name))
		return NVML_ERROR_NOT_SUPPORTED;
	fg_state *s = fg_lock(g);
	s->pending[which] = value;
	if (!at_reset)
		s->setting[which] = value;
	fg_unlock(g);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	ENTER(device);
	*mode = (nvmlComputeMode_t)fg_conf_size(g, "answers_compute_mode", (uint64_t)setting(g, NV_COMPUTE_MODE, 0));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
	ENTER(device);
	return set(g, "compute_mode", NV_COMPUTE_MODE, mode, 0);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
	ENTER(device);
	*mode = (nvmlEnableState_t)fg_conf_size(g, "answers_persistence", (uint64_t)setting(g, NV_PERSISTENCE, 0));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	ENTER(device);
	return set(g, "persistence", NV_PERSISTENCE, mode, 0);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
	ENTER(device);
	*current = (nvmlEnableState_t)fg_conf_size(g, "answers_ecc", setting(g, NV_ECC_OFF, 0) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED);
	*pending = setting(g, NV_ECC_OFF, 1) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t ecc)
{
	ENTER(device);
	return set(g, "ecc", NV_ECC_OFF, ecc == NVML_FEATURE_DISABLED, 1);
}

#define DEFAULT_POWER_MW 700000

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
	ENTER(device);
	int64_t v = setting(g, NV_POWER_MW, 0);
	*limit = v ? (unsigned int)v : DEFAULT_POWER_MW;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *defaultLimit)
{
	ENTER(device);
	*defaultLimit = DEFAULT_POWER_MW;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit)
{
	ENTER(device);
	if (limit < 200000 || limit > DEFAULT_POWER_MW)
		return NVML_ERROR_INVALID_ARGUMENT;
	return set(g, "power_limit", NV_POWER_MW, limit, 0);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned int *clockMHz)
{
	ENTER(device);
	*clockMHz = clockType == NVML_CLOCK_MEM ? 2619 : setting(g, NV_CLOCKS_SET, 0) ? 1200 : 1980;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned int *clockMHz)
{
	ENTER(device);
	*clockMHz = clockType == NVML_CLOCK_MEM ? 2619 : 1980;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned int memClockMHz, unsigned int graphicsClockMHz)
{
	ENTER(device);
	(void)memClockMHz;
	return set(g, "clocks", NV_CLOCKS_SET, graphicsClockMHz != 1980, 0);
}

nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
	ENTER(device);
	return set(g, "clocks", NV_CLOCKS_SET, 0, 0);
}

nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
	ENTER(device);
	return set(g, "clocks", NV_CLOCKS_SET, 0, 0);
}

nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
	ENTER(device);
	return NVML_SUCCESS;
}

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
	ENTER(device);
	WHOLE_ONLY();
	*currentMode = (unsigned int)fg_conf_size(g, "answers_mig", (uint64_t)setting(g, NV_MIG, 0));
	*pendingMode = (unsigned int)setting(g, NV_MIG, 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activationStatus)
{
	ENTER(device);
	WHOLE_ONLY();
	int was = setting(g, NV_MIG, 0) != 0;
	for (int i = 0; was && !mode && i < fg_instances(g); i++)
		if (!(setting(g, NV_NO_GPU_INSTANCE, 0) >> i & 1))
			return NVML_ERROR_IN_USE;
	if (!was && mode) {
		set(g, "", NV_NO_GPU_INSTANCE, 0, 0);
		set(g, "", NV_NO_COMPUTE_INSTANCE, 0, 0);
	}
	*activationStatus = was == (int)mode ? NVML_SUCCESS : NVML_ERROR_RESET_REQUIRED;
	return set(g, "mig", NV_MIG, mode, 1);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	ENTER(device);
	*count = 7;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice)
{
	ENTER(device);
	if (!nv_instance(g, (int)index))
		return NVML_ERROR_NOT_FOUND;
	return handle(g, (int)index, migDevice);
}

/* All instances are of one profile, and each has one compute instance. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)
{
	ENTER(device);
	WHOLE_ONLY();
	if (profile != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*info = (nvmlGpuInstanceProfileInfo_t){.id = 19, .sliceCount = 1, .instanceCount = (unsigned int)fg_instances(g)};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profileId, nvmlGpuInstance_t *gpuInstances, unsigned int *count)
{
	ENTER(device);
	WHOLE_ONLY();
	*count = 0;
	for (int i = 0; profileId == 19 && setting(g, NV_MIG, 0) && i < fg_instances(g); i++) {
		nvmlDevice_t h;
		if (setting(g, NV_NO_GPU_INSTANCE, 0) >> i & 1)
			continue;
		if (handle(g, i, &h) != NVML_SUCCESS)
			return NVML_ERROR_INSUFFICIENT_RESOURCES;
		gpuInstances[(*count)++].handle = (struct nvmlGpuInstance_st *)h.handle;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile, nvmlComputeInstanceProfileInfo_t *info)
{
	(void)gpuInstance;
	if (profile != 0 || engProfile != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*info = (nvmlComputeInstanceProfileInfo_t){.id = 0, .sliceCount = 1, .instanceCount = 1};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance, unsigned int profileId, nvmlComputeInstance_t *computeInstances, unsigned int *count)
{
	nvmlDevice_t device = {(struct nvmlDevice_st *)gpuInstance.handle};
	ENTER(device);
	*count = profileId == 0 && nv_instance(g, instance);
	if (*count)
		computeInstances[0].handle = (struct nvmlComputeInstance_st *)gpuInstance.handle;
	return NVML_SUCCESS;
}

static nvmlReturn_t destroy(fg_gpu *g, int instance, int which)
{
	fg_client clients[FG_MAX_CLIENTS];
	for (int i = fg_clients(g, clients, FG_MAX_CLIENTS); i > 0; i--)
		if (clients[i - 1].instance == instance)
			return NVML_ERROR_IN_USE;
	return set(g, "mig_instances", which, setting(g, which, 0) | 1ll << instance, 0);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance)
{
	nvmlDevice_t device = {(struct nvmlDevice_st *)computeInstance.handle};
	ENTER(device);
	return destroy(g, instance, NV_NO_COMPUTE_INSTANCE);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance)
{
	nvmlDevice_t device = {(struct nvmlDevice_st *)gpuInstance.handle};
	ENTER(device);
	return nv_instance(g, instance) ? NVML_ERROR_IN_USE : destroy(g, instance, NV_NO_GPU_INSTANCE);
}
