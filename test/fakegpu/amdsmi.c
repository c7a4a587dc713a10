//go:build ignore

/*
 * A fake libamd_smi.so: the ABI of AMD SMI 26 (ROCm 7), or of 24.7 (ROCm 6.3) where the
 * config says "amdsmi 24.7", whose strings are shorter.
 *
 * Keys of its own: amdsmi VERSION (26.2.1), hive ID (0: alone), gfx NUMBER (942),
 * bad_pages N (0), page_status N (1), ras on|off (on), driver_name TEXT (amdgpu). Faults of its own:
 *
 *   driver_missing      amdgpu is not loaded (34)
 *   holder PID          a process that holds the GPU and is seen by nobody else
 *   in_use_on_reset     the reset is refused: busy (30)
 *   reset_failed        amdgpu could not start the GPU again (54)
 *   reset_denied        debugfs is locked down (10)
 *   lying_reset         success, and nothing was reset
 *   reset_disturbs N    GPU N, which is in no hive with it, is reset as well
 *   clean_unsupported   the firmware has no cleaner shader (2)
 *   partition_refused   a change of the partition mode is refused: busy (30)
 *   partition_ignored   success, and the mode is as it was
 *   bad_layout          strings of a length that no version has
 *   absurd WHAT         counts that no machine has: gpus, partitions, processes
 *   no_serial           the chip has no serial number: all such have one uuid
 */
#define _GNU_SOURCE
#include "amd.h"
#include "amdsmi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status {
	OK = 0, INVAL = 1, NOT_SUPPORTED = 2, NO_PERM = 10, OUT_OF_RESOURCES = 15,
	BUSY = 30, NOT_FOUND = 31, NOT_INIT = 32, DRIVER_NOT_LOADED = 34, RESTART_ERR = 54,
};

#define EXPORT __attribute__((visibility("default")))

/* ---- handles ---- */

typedef struct {
	fg_gpu *gpu;
	int partition;
} processor;

static int initialized, nsockets;
static fg_gpu *sockets[FG_MAX_GPUS];
static processor processors[FG_MAX_GPUS][8];

static int old(void) { return !strncmp(fg_conf(NULL, "amdsmi", "26.2.1"), "24", 2); }

#define PUT(to, ...) snprintf(to, sizeof(to), __VA_ARGS__)

/* Every call on a processor begins here. */
static int enter(const void *handle, const processor **p)
{
	if (!initialized)
		return NOT_INIT;
	for (int i = 0; i < nsockets; i++)
		for (int k = 0; k < 8; k++)
			if (handle == &processors[i][k]) {
				*p = handle;
				return fg_lost((*p)->gpu) ? NOT_FOUND : OK;
			}
	return INVAL;
}

static int absurd(const fg_gpu *g, const char *what)
{
	const char *arg;
	return fg_fault(g, "absurd", &arg) && !strcmp(arg, what);
}

#define ENTER(handle)                \
	const processor *p;          \
	int entered = enter(handle, &p); \
	if (entered)                 \
	return entered

EXPORT int amdsmi_init(uint64_t flags)
{
	(void)flags;
	if (initialized)
		return OK;
	int n = fg_open("amd");
	fg_misbehave(NULL, "init");
	if (n < 0 || fg_fault(NULL, "driver_missing", NULL))
		return DRIVER_NOT_LOADED;
	for (int i = 0; i < n; i++) {
		sockets[i] = fg_gpu_at(i);
		for (int k = 0; k < 8; k++)
			processors[i][k] = (processor){sockets[i], k};
	}
	nsockets = n;
	initialized = 1;
	return OK;
}

EXPORT int amdsmi_shut_down(void)
{
	initialized = nsockets = 0;
	return OK;
}

EXPORT int amdsmi_get_lib_version(void *out)
{
	if (!initialized)
		return NOT_INIT;
	uint32_t v[3] = {0};
	const char *text = fg_conf(NULL, "amdsmi", "26.2.1");
	sscanf(text, "%u.%u.%u", &v[0], &v[1], &v[2]);
	if (old())
		*(version24 *)out = (version24){{v[0], v[1], v[2], 0}, text};
	else
		*(version26 *)out = (version26){v[0], v[1], v[2], text};
	return OK;
}

EXPORT int amdsmi_status_code_to_string(uint32_t status, const char **text)
{
	switch (status) {
	case BUSY: *text = "AMDSMI_STATUS_BUSY: Processor busy"; break;
	case DRIVER_NOT_LOADED: *text = "AMDSMI_STATUS_DRIVER_NOT_LOADED: Processor driver not loaded"; break;
	case NOT_SUPPORTED: *text = "AMDSMI_STATUS_NOT_SUPPORTED: Command not supported"; break;
	default: *text = "AMDSMI_STATUS: another status"; break;
	}
	return OK;
}

EXPORT int amdsmi_get_socket_handles(uint32_t *count, void **handles)
{
	if (!initialized)
		return NOT_INIT;
	uint32_t room = *count;
	*count = absurd(NULL, "gpus") ? UINT32_MAX : (uint32_t)nsockets;
	for (uint32_t i = 0; handles && i < room && i < (uint32_t)nsockets; i++)
		handles[i] = &sockets[i];
	return OK;
}

EXPORT int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles)
{
	if (!initialized)
		return NOT_INIT;
	int i = (int)((fg_gpu **)socket - sockets);
	if (i < 0 || i >= nsockets)
		return INVAL;
	uint32_t room = *count;
	*count = absurd(sockets[i], "partitions") ? UINT32_MAX : (uint32_t)amd_partitions(sockets[i]);
	for (uint32_t k = 0; handles && k < room && k < *count && k < 8; k++)
		handles[k] = &processors[i][k];
	return OK;
}

EXPORT int amdsmi_get_processor_type(void *handle, uint32_t *type)
{
	ENTER(handle);
	*type = 1; /* AMD GPU */
	return OK;
}

/* ---- what it is ---- */

EXPORT int amdsmi_get_gpu_device_bdf(void *handle, uint64_t *bdf)
{
	ENTER(handle);
	uint32_t domain, bus, device;
	fg_pci(p->gpu, &domain, &bus, &device);
	*bdf = (uint64_t)domain << 16 | bus << 8 | device << 3;
	return OK;
}

/* All partitions of a GPU have one uuid. */
EXPORT int amdsmi_get_gpu_device_uuid(void *handle, uint32_t *length, char *uuid)
{
	ENTER(handle);
	if (*length < 38)
		return INVAL;
	unsigned char u[16] = {0x74, 0xa1};
	if (!fg_fault(p->gpu, "no_serial", NULL))
		fg_uuid(p->gpu, u);
	snprintf(uuid, 38, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	return OK;
}

EXPORT int amdsmi_get_gpu_asic_info(void *handle, void *out)
{
	ENTER(handle);
	unsigned char u[16];
	fg_uuid(p->gpu, u);
	uint64_t serial, gfx = fg_conf_size(p->gpu, "gfx", 942);
	memcpy(&serial, u, 8);
	const char *name = fg_conf(p->gpu, "name", "AMD Instinct MI300X");
	if (old()) {
		asic24 a = {.vendor_id = 0x1002, .device_id = 0x74a1, .compute_units = 304, .target_graphics_version = gfx};
		PUT(a.market_name, "%s", name);
		PUT(a.asic_serial, "0x%016llX", (unsigned long long)serial);
		memcpy(out, &a, sizeof a);
	} else {
		asic26 a = {.vendor_id = 0x1002, .device_id = 0x74a1, .compute_units = 304, .target_graphics_version = gfx};
		PUT(a.market_name, "%s", name);
		PUT(a.asic_serial, "0x%016llX", (unsigned long long)serial);
		memcpy(out, &a, sizeof a);
	}
	return OK;
}

EXPORT int amdsmi_get_gpu_board_info(void *handle, void *out)
{
	ENTER(handle);
	int n = fg_number(p->gpu);
	if (old()) {
		board24 b = {0};
		PUT(b.product_serial, "6923%04d", n);
		memcpy(out, &b, sizeof b);
	} else {
		board26 b = {0};
		PUT(b.product_serial, "6923%04d", n);
		memcpy(out, &b, sizeof b);
	}
	return OK;
}

EXPORT int amdsmi_get_gpu_driver_info(void *handle, void *out)
{
	ENTER(handle);
	const char *version = fg_conf(p->gpu, "driver", "6.14.14"), *name = fg_conf(p->gpu, "driver_name", "amdgpu");
	if (fg_fault(p->gpu, "bad_layout", NULL)) {
		char d[3][128] = {0};
		PUT(d[0], "%s", version);
		PUT(d[2], "%s", name);
		memcpy(out, d, sizeof d);
	} else if (old()) {
		driver24 d = {0};
		PUT(d.version, "%s", version);
		PUT(d.name, "%s", name);
		memcpy(out, &d, sizeof d);
	} else {
		driver26 d = {0};
		PUT(d.version, "%s", version);
		PUT(d.name, "%s", name);
		memcpy(out, &d, sizeof d);
	}
	return OK;
}

EXPORT int amdsmi_get_gpu_memory_total(void *handle, uint32_t kind, uint64_t *bytes)
{
	ENTER(handle);
	if (kind)
		return NOT_SUPPORTED;
	*bytes = fg_total(p->gpu, amd_instance(p->gpu, p->partition));
	return OK;
}

EXPORT int amdsmi_get_xgmi_info(void *handle, xgmi_info *out)
{
	ENTER(handle);
	*out = (xgmi_info){.hive_id = fg_conf_size(p->gpu, "hive", 0), .index = (uint32_t)fg_number(p->gpu)};
	return OK;
}

/* ---- who holds it ---- */

EXPORT int amdsmi_get_gpu_process_list(void *handle, uint32_t *count, void *list)
{
	ENTER(handle);
	fg_client all[FG_MAX_CLIENTS + 1], mine[FG_MAX_CLIENTS + 1];
	uint32_t n = 0, room = *count;
	int instance = amd_instance(p->gpu, p->partition), living = fg_clients(p->gpu, all, FG_MAX_CLIENTS);
	const char *pid;
	if (fg_fault(p->gpu, "holder", &pid))
		all[living++] = (fg_client){.pid = (uint32_t)atoi(pid), .instance = instance};
	for (int i = 0; i < living; i++)
		if (all[i].instance == instance)
			mine[n++] = all[i];
	*count = absurd(p->gpu, "processes") ? UINT32_MAX : n;
	if (room == 0 || n == 0)
		return OK;
	if (!list)
		return INVAL;
	for (uint32_t i = 0; i < n && i < room; i++) {
		uint64_t bytes = fg_used_by(p->gpu, &mine[i]);
		if (old()) {
			proc24 r = {.pid = mine[i].pid, .mem = bytes, .memory.vram_mem = bytes};
			PUT(r.name, "python3");
			memcpy((proc24 *)list + i, &r, sizeof r);
		} else {
			proc26 r = {.pid = mine[i].pid, .mem = bytes, .memory.vram_mem = bytes};
			PUT(r.name, "python3");
			memcpy((proc26 *)list + i, &r, sizeof r);
		}
	}
	return room < n ? OUT_OF_RESOURCES : OK;
}

/* ---- health ---- */

static int ras(const fg_gpu *g) { return strcmp(fg_conf(g, "ras", "on"), "off") != 0; }

/* The real one adds to what is in *out, and without RAS adds nothing and succeeds. */
EXPORT int amdsmi_get_gpu_total_ecc_count(void *handle, error_count *out)
{
	ENTER(handle);
	if (!ras(p->gpu))
		return OK;
	fg_state *s = fg_lock(p->gpu);
	out->correctable += s->ecc_corrected;
	out->uncorrectable += s->ecc_uncorrected;
	fg_unlock(p->gpu);
	return OK;
}

EXPORT int amdsmi_get_gpu_ecc_enabled(void *handle, uint64_t *blocks)
{
	ENTER(handle);
	*blocks = ras(p->gpu) ? 0x7 : 0;
	return OK;
}

/* The real one writes all pages there are, whatever room was said to be, and leaves
 * *count as it was where there are none. */
EXPORT int amdsmi_get_gpu_bad_page_info(void *handle, uint32_t *count, page_record *records)
{
	ENTER(handle);
	uint32_t n = (uint32_t)fg_conf_size(p->gpu, "bad_pages", 0);
	if (n)
		*count = n;
	for (uint32_t i = 0; records && i < n; i++)
		records[i] = (page_record){.address = i, .size = 4096, .status = i == 0 ? (uint32_t)fg_conf_size(p->gpu, "page_status", 1) : 0}; /* the first one pends */
	return OK;
}

EXPORT int amdsmi_gpu_xgmi_error_status(void *handle, uint32_t *status)
{
	ENTER(handle);
	if (!fg_conf_size(p->gpu, "hive", 0))
		return NOT_SUPPORTED;
	fg_state *s = fg_lock(p->gpu);
	*status = s->link_errors > 2 ? 2 : (uint32_t)s->link_errors;
	s->link_errors = 0; /* reading clears, as in the kernel */
	fg_unlock(p->gpu);
	return OK;
}

EXPORT int amdsmi_get_energy_count(void *handle, uint64_t *accumulated, float *resolution, uint64_t *timestamp)
{
	ENTER(handle);
	*resolution = 15.3f; /* microjoules */
	*accumulated = (uint64_t)((double)fg_energy_mj(p->gpu) * 1000 / (double)*resolution);
	*timestamp = 0;
	return OK;
}

EXPORT int amdsmi_get_gpu_metrics_info(void *handle, gpu_metrics *out)
{
	ENTER(handle);
	uint64_t up_ms = fg_energy_mj(p->gpu) / 70;
	memset(out, 0xff, sizeof *out); /* what it does not know is all ones */
	out->firmware_timestamp = up_ms * 100000;
	out->accumulation_counter = up_ms;
	return OK;
}

/* ---- settings ---- */

static int64_t setting(fg_gpu *g, int slot)
{
	int64_t v = fg_lock(g)->setting[slot];
	fg_unlock(g);
	return v;
}

static int set(fg_gpu *g, int slot, int64_t value)
{
	fg_state *s = fg_lock(g);
	s->setting[slot] = s->pending[slot] = value;
	fg_unlock(g);
	return OK;
}

/* A partition mode changes only when nobody holds the GPU. */
static int partition(fg_gpu *g, int slot, int64_t value)
{
	fg_client c;
	if (fg_fault(g, "partition_refused", NULL) || fg_clients(g, &c, 1))
		return BUSY;
	return fg_fault(g, "partition_ignored", NULL) ? OK : set(g, slot, value);
}

EXPORT int amdsmi_get_gpu_compute_partition(void *handle, char *text, uint32_t length)
{
	ENTER(handle);
	static const char *const names[] = {"", "SPX", "DPX", "TPX", "QPX", "CPX"};
	snprintf(text, length, "%s", names[amd_mode(p->gpu)]);
	return OK;
}

EXPORT int amdsmi_set_gpu_compute_partition(void *handle, uint32_t mode)
{
	ENTER(handle);
	if (mode != AMD_SPX && (int)mode != amd_mode_of_config(p->gpu))
		return NOT_SUPPORTED;
	return partition(p->gpu, AMD_COMPUTE, mode);
}

EXPORT int amdsmi_get_gpu_memory_partition(void *handle, char *text, uint32_t length)
{
	ENTER(handle);
	int64_t n = setting(p->gpu, AMD_MEMORY);
	snprintf(text, length, "NPS%d", n ? (int)n : 1);
	return OK;
}

EXPORT int amdsmi_set_gpu_memory_partition(void *handle, uint32_t mode)
{
	ENTER(handle);
	int banks = old() && mode ? 1 << (mode - 1) : (int)mode; /* 24 numbers them 1, 2, 3, 4 */
	if (banks != 1 && banks != 2 && banks != 4 && banks != 8)
		return INVAL;
	return partition(p->gpu, AMD_MEMORY, banks);
}

#define DEFAULT_CAP 750000000ull /* microwatts */

EXPORT int amdsmi_get_power_cap_info(void *handle, uint32_t sensor, power_cap *out)
{
	ENTER(handle);
	if (sensor)
		return INVAL;
	int64_t cap = setting(p->gpu, AMD_POWER);
	*out = (power_cap){.cap = cap ? (uint64_t)cap : DEFAULT_CAP, .default_cap = DEFAULT_CAP, .max_cap = DEFAULT_CAP};
	return OK;
}

EXPORT int amdsmi_set_power_cap(void *handle, uint32_t sensor, uint64_t cap)
{
	ENTER(handle);
	return sensor || cap > DEFAULT_CAP ? INVAL : set(p->gpu, AMD_POWER, (int64_t)cap);
}

EXPORT int amdsmi_get_gpu_perf_level(void *handle, uint32_t *level)
{
	ENTER(handle);
	*level = (uint32_t)setting(p->gpu, AMD_PERF);
	return OK;
}

EXPORT int amdsmi_set_gpu_perf_level(void *handle, uint32_t level)
{
	ENTER(handle);
	return level > 8 ? INVAL : set(p->gpu, AMD_PERF, level);
}

EXPORT int amdsmi_get_gpu_process_isolation(void *handle, uint32_t *on)
{
	ENTER(handle);
	*on = (uint32_t)setting(p->gpu, AMD_ISOLATION);
	return OK;
}

EXPORT int amdsmi_set_gpu_process_isolation(void *handle, uint32_t on)
{
	ENTER(handle);
	return on > 1 ? INVAL : set(p->gpu, AMD_ISOLATION, on);
}

/* ---- what clears ---- */

EXPORT int amdsmi_clean_gpu_local_data(void *handle)
{
	ENTER(handle);
	if (fg_fault(p->gpu, "clean_unsupported", NULL))
		return NOT_SUPPORTED;
	return set(p->gpu, AMD_CLEANED, setting(p->gpu, AMD_CLEANED) + 1);
}

/* The driver resets a hive as one, whichever of its GPUs was named. */
EXPORT int amdsmi_reset_gpu(void *handle)
{
	ENTER(handle);
	const char *other;
	fg_misbehave(p->gpu, "reset");
	if (fg_fault(p->gpu, "reset_denied", NULL))
		return NO_PERM;
	if (fg_fault(p->gpu, "reset_failed", NULL))
		return RESTART_ERR;
	uint64_t hive = fg_conf_size(p->gpu, "hive", 0);
	int disturbs = fg_fault(p->gpu, "reset_disturbs", &other) ? atoi(other) : -1;
	fg_client c;
	for (int i = 0; i < nsockets; i++) {
		int together = sockets[i] == p->gpu || (hive && fg_conf_size(sockets[i], "hive", 0) == hive);
		if (together && (fg_fault(p->gpu, "in_use_on_reset", NULL) || fg_clients(sockets[i], &c, 1)))
			return BUSY;
	}
	for (int i = 0; i < nsockets; i++) {
		if (sockets[i] != p->gpu && !(hive && fg_conf_size(sockets[i], "hive", 0) == hive) && fg_number(sockets[i]) != disturbs)
			continue;
		uint32_t domain, bus, device;
		char line[96];
		fg_pci(sockets[i], &domain, &bus, &device);
		/* amdgpu was seen to log this of a reset that did not work. */
		snprintf(line, sizeof line, "amdgpu %04x:%02x:%02x.0: amdgpu: GPU reset(1) succeeded!\n", domain, bus, device);
		fg_kernel_says(line);
		if (!fg_fault(p->gpu, "lying_reset", NULL))
			fg_reset(sockets[i]);
	}
	return OK;
}
